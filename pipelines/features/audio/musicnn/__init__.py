"""The networks of musicnn, which were trained to tag music: the extractor, its networks, and how they were imported."""
