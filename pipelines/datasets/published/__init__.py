"""Datasets that others publish: their files, labels and splits, and where to get them."""
