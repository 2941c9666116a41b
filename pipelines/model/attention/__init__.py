"""The three attentions of the paper on heads, with and without state."""
