"""From batches to a model: losses, the loop, validation and the baseline."""
