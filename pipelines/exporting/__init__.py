"""Models for other runtimes: one step with its state as inputs and outputs, in a file that says what it is."""
