"""Google's speech embedding, trained to tell spoken words apart: extractor, network, and how it was imported."""
