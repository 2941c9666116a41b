"""Whether a folder is free for a training run: asked before anything heavy is imported or read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pipelines.errors import InputError, UsageError
from pipelines.file_lock import LockBusyError, file_lock
from pipelines.files import unwritable

ENVIRONMENT = "environment.json"
# What shows that a folder holds a run, or the runs of several seeds.
STATE, BEST, SEEDS = "state.pt", "best.safetensors", "seeds.toml"
LOCK = ".lock"
UNNAMED = "none"  # what torchrun calls a launch that was given no --rdzv-id


def require_free(folder: Path) -> None:
    """Refuse a folder that holds a run already, and a file."""
    if os.environ.get("RANK", "0") != "0":  # of several processes the first one asks: it may have begun already
        return
    if folder.is_file():
        raise UsageError(f"--out {folder} is a file: name a folder")
    if goes_on(folder):
        return
    if any((folder / name).exists() for name in (STATE, BEST, SEEDS)):
        raise UsageError(f"{folder} holds a run already: go on with --resume {folder}, or choose another --out")


def launch() -> str | None:
    """What tells one launch of `torchrun` from another, however often it starts its workers; None: nothing does."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", UNNAMED)
    return None if name == UNNAMED else name


def goes_on(folder: Path) -> bool:
    """Whether the run in a folder is of this very launch: a worker was lost, and all go on from what was saved."""
    name = launch()
    if name is None:
        return False
    try:
        environment = json.loads((folder / ENVIRONMENT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(environment, dict) and environment.get("launch") == name


def check_launch(out: Path | None) -> None:
    """Refuse restarts by `torchrun` that could not find their run again."""
    if int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) and (out is None or launch() is None):
        wanted = "--out to cotrans train" if out is None else "--rdzv-id to torchrun"
        raise UsageError(f"torchrun --max-restarts: workers that start again must find their run; give {wanted}")


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
