"""Files that we did not write: read safely, and what is found in them."""
