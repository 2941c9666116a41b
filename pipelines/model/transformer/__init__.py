"""The continual transformer: blocks, encoder, decoder, and the whole model."""
