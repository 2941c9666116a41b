"""Teaching a model to answer none: foreign recordings, and the rule that is fitted on them."""
