"""SoundNet, trained to hear in videos what there is to see: extractor, network, and how it was imported."""
