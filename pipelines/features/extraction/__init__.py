"""`cotrans extract` without the command line: recordings in, feature files out."""
