"""Models in files: our own format, the formats of other projects, and the way from theirs to ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.checkpoints.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

__all__ = ["Checkpoint", "load_checkpoint", "save_checkpoint"]


def __getattr__(name: str) -> Any:
    """Import what needs PyTorch when it is asked for: listing models and checking names takes no seconds then."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pipelines.checkpoints import checkpoint

    return getattr(checkpoint, name)
