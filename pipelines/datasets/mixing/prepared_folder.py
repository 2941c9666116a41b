"""Folders of files that are made once and kept in the user's cache: complete, or not there."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from pipelines.errors import InputError
from pipelines.settings import cache_dir

INDEX = "index.json"  # written last: a folder that has it is complete


def prepared_folder(stem: str, identity: str, prepare: Callable[[Path], None]) -> Path:
    """The cached folder for `identity`, made by `prepare(folder)` unless it is there already.

    `prepare` writes into a temporary folder, INDEX included, which gets its name when everything is in it.
    Processes that do the same at the same time do not disturb each other: the first to finish wins.
    """
    digest = hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    folder = cache_dir() / "datasets" / f"{stem}-{digest}"
    if (folder / INDEX).is_file():
        return folder
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    _remove_left_over(folder)
    try:
        temporary.mkdir(parents=True, exist_ok=True)
        prepare(temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if not (folder / INDEX).is_file():
                raise
    except OSError as error:
        raise InputError(
            f"cannot write to the cache folder {folder.parent} ({error.strerror or error}); COTRANS_CACHE sets another"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _remove_left_over(folder: Path) -> None:
    """Remove temporary folders of runs that were killed: their process is gone."""
    for other in folder.parent.glob(f".{glob.escape(folder.name)}.*.part"):
        number = other.name.split(".")[-2]
        if number.isdecimal() and not _is_running(int(number)):
            shutil.rmtree(other, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is somebody else's
        return True
    return True
