"""Recipes, losses and the training loop."""
