"""What the continual transformer is made of: configuration, state, attention, blocks, encoder, classifier."""
