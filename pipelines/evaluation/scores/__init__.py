"""From predictions to scores: protocols, average precision, accuracy, intervals, baselines."""
