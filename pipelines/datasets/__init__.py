"""Datasets: clips or feature streams with labels and splits, in one shape for training and evaluation."""
