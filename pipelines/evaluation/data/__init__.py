"""What is scored: the models, the recordings, and what a model has seen of them in training."""
