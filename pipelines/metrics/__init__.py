"""Numbers out of scores and truth, which training and evaluation both take."""
