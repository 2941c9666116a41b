"""Datasets: clips, features, labels and splits."""
