"""Metrics and the protocols that papers score by."""
