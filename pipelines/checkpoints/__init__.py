"""Checkpoint files: our own format, the formats of other projects, and conversion between them."""
