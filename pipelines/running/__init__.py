"""Running a model over recordings: by steps, chunks or windows, and the proof that they agree."""
