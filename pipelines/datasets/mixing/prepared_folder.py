"""Folders of files that are made once and kept in the user's cache: complete, or not there."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from pipelines.settings import cache_dir, unwritable_cache

INDEX = "index.json"  # written last: a folder that has it is complete


def prepared_folder(stem: str, identity: str, prepare: Callable[[Path], None], made_of: Sequence[Path] = ()) -> Path:
    """The cached folder for `identity`, made by `prepare(folder)` unless it is there already.

    `prepare` writes into a temporary folder, INDEX included, which gets its name when everything is in it.
    Processes that do the same at the same time do not disturb each other: the first to finish wins. made_of: files that
    it depends on; where one of them was written after the folder was made, another folder is.
    """
    folder = _place(stem, identity)
    newest = max((path.stat().st_mtime_ns for path in made_of), default=0)
    if (folder / INDEX).is_file() and (folder / INDEX).stat().st_mtime_ns < newest:
        folder = _place(stem, f"{identity}|{newest}")
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
        raise unwritable_cache(folder.parent, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _place(stem: str, identity: str) -> Path:
    digest = hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    return cache_dir() / "datasets" / f"{stem}-{digest}"


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
