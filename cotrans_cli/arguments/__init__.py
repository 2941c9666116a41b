"""What a person types: options shared by commands, checks, completion, help."""
