"""Feature files: our own layout, and those that other projects read."""
