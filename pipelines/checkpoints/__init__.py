"""Models in files: our own format, the formats of other projects, and the way from theirs to ours."""

from pipelines.checkpoints.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

__all__ = ["Checkpoint", "load_checkpoint", "save_checkpoint"]
