"""Everything that the cotrans commands chain: features, models, training, streaming, evaluation."""

__version__ = "0.1.0"
