"""Linear layers in float32, and the same with weights of fewer bits."""
