"""Live prediction: sources, pacing, the stream session and sinks."""
