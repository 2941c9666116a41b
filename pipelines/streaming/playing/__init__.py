"""Playing a source: decoding, pacing, features, and the queue in front of the model."""
