"""Media decoding, streaming feature extractors and feature files."""
