"""From recordings to batches: opening, drawing, standardising and augmenting."""
