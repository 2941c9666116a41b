"""Rows of features and rows of targets for the items of a dataset."""
