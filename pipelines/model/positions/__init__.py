"""How a model knows the places of its tokens: encodings, biases by age, rotations."""
