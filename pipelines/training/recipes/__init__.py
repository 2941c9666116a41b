"""Recipes: what decides a training run, its files, and the rules for a user's own data."""
