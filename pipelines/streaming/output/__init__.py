"""What a stream leaves: lines, segments, subtitles, overlays and a summary."""
