"""Results as tables, files and figures."""
