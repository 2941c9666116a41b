"""Whether a folder is free for a training run: asked before anything heavy is imported or read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pipelines.errors import InputError, UsageError
from pipelines.file_lock import LockBusyError, file_lock
from pipelines.files import unwritable

# What shows that a folder holds a run, or the runs of several seeds.
STATE, BEST, SEEDS = "state.pt", "best.safetensors", "seeds.toml"
LOCK = ".lock"


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


@contextmanager
def occupied(folder: Path) -> Iterator[None]:
    """Hold a folder for one run: a second one at the same time would write over it, and neither would know.

    Folders that were made for it and stay empty are removed again.
    """
    made = [place for place in (folder, *folder.absolute().parents) if not place.exists()]
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(folder / LOCK, wait=False))
        except LockBusyError as error:
            raise InputError(
                f"{folder} is in use: another training run is writing there; wait for it, or choose another --out"
            ) from error
        except OSError as error:
            raise InputError(unwritable(folder, error)) from error
        try:
            yield
        finally:
            held.close()
            with suppress(OSError):  # it holds something now
                for place in made:
                    place.rmdir()
