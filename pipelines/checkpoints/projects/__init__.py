"""Other projects' models, one by one: keys, settings, and their own forward pass for the proof."""
