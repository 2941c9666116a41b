"""The model's side of a stream: state, steps, predictions, snapshots."""
