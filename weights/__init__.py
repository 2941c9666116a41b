"""The registry of known weights and the checkpoints that ship with cotrans."""
