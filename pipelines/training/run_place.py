"""Whether a folder is free for a training run: asked before anything heavy is imported or read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pipelines.errors import InputError, UsageError
from pipelines.files import unwritable

# What shows that a folder holds a run, or the runs of several seeds.
STATE, BEST, SEEDS = "state.pt", "best.safetensors", "seeds.toml"


def require_free(folder: Path) -> None:
    """Refuse a folder that holds a run already, and a file."""
    if os.environ.get("RANK", "0") != "0":  # of several processes the first one asks: it may have begun already
        return
    if folder.is_file():
        raise UsageError(f"--out {folder} is a file: name a folder")
    if any((folder / name).exists() for name in (STATE, BEST, SEEDS)):
        raise UsageError(f"{folder} holds a run already: go on with --resume {folder}, or choose another --out")


def require_writable(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to; nothing is left behind."""
    place = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise InputError(unwritable(folder, error)) from error
