"""What a person calls from Python: plain arguments in, frozen results out, progress through one callback."""
