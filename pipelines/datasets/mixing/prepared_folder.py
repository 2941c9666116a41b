"""Folders of files that are made once and kept in the user's cache: complete, or not there."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pipelines.files import use_common_mode
from pipelines.settings import cache_dir, unwritable_cache

INDEX = "index.json"  # written last: a folder that has it is complete
# Seconds without a new file after which what is half done was left behind: where its process is known to be gone, and
# where it may be another machine's, of a cache that several share.
GONE, UNKNOWN = 600.0, 86_400.0


def prepared_folder(stem: str, identity: str, prepare: Callable[[Path], None], made_of: Sequence[Path] = ()) -> Path:
    """The cached folder for `identity`, made by `prepare(folder)` unless it is there already.

    `prepare` writes into a temporary folder, INDEX included, which gets its name when everything is in it.
    Processes, threads and machines that do the same at the same time do not disturb each other: the first to finish
    wins. made_of: files that it depends on; where one of them was written after the folder was made, another folder is.
    """
    folder = _place(stem, identity)
    newest = max((path.stat().st_mtime_ns for path in made_of), default=0)
    if (folder / INDEX).is_file() and (folder / INDEX).stat().st_mtime_ns < newest:
        folder = _place(stem, f"{identity}|{newest}")
    if (folder / INDEX).is_file():
        return folder
    _remove_left_over(folder)
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(".part", f".{folder.name}.{_machine()}.{os.getpid()}.", folder.parent))
        use_common_mode(temporary, 0o777)
        prepare(temporary)
        try:
            temporary.rename(folder)
        except OSError:
            if not (folder / INDEX).is_file():
                raise
    except OSError as error:
        raise unwritable_cache(folder.parent, error) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _place(stem: str, identity: str) -> Path:
    digest = hashlib.sha256(os.fsencode(identity)).hexdigest()[:16]
    return cache_dir() / "datasets" / f"{stem}-{digest}"


def _machine() -> str:
    """Which machine this is, for names of files."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _remove_left_over(folder: Path) -> None:
    """Remove temporary folders of runs that were killed."""
    for other in folder.parent.glob(f".{glob.escape(folder.name)}.*.part"):
        *_, machine, process, _, _ = ("", "", *other.name.split("."))
        gone = machine == _machine() and process.isdecimal() and not _is_running(int(process))
        with suppress(OSError):  # somebody else has just removed it, or given it its name
            if time.time() - other.stat().st_mtime > (GONE if gone else UNKNOWN):
                shutil.rmtree(other, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is somebody else's
        return True
    return True
