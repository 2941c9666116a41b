"""Writing files so that a killed run leaves no half file, and telling one file from another."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.errors import InputError, UsageError
from pipelines.file_lock import try_lock

# No space, no quota, file too large: whatever the system calls a disk that takes no more.
FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
BLOCK = 1 << 20  # bytes read at a time
_RANDOM_LETTERS = 8  # that `tempfile` puts in a name
_MOMENT = 2.0  # seconds in which a new temporary file may not be locked yet


class WriteError(OSError):
    """A file or folder that cannot be written; `filename` is the one that was asked for, not a temporary one."""


def unwritable(path: Path, error: OSError, otherwise: str = "choose another folder") -> str:
    """One line about an output that the system refuses, with what to do. It is for an InputError, everywhere."""
    if error.errno in FULL_DISK:
        return f"the disk is full: cannot write to {path}; make room, or {otherwise}"
    return f"cannot write to {path} ({error.strerror or error}): {otherwise}"


def is_file(path: Path) -> bool:
    """Whether a path is a file; also for names that no file can have, which are too long or hold a null byte."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether a path is a folder, for any name, as `is_file`."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file in hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def atomic_write(path: Path, *, locked: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well, it becomes `path` in one step.

    When the block fails, the temporary file is removed and whatever stood at `path` before is untouched. A caller
    that holds a lock for `path` says so: then the temporary name is always the same, and what a killed run has left
    behind is written over. A device or a pipe, such as /dev/null, is written to and never replaced.
    """
    if _is_device(path):
        with tempfile.TemporaryDirectory(prefix="cotrans-") as folder:
            temporary = Path(folder) / path.name
            temporary.touch()
            yield temporary
            with temporary.open("rb") as whole, path.open("wb") as device:
                shutil.copyfileobj(whole, device)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = None
        if locked:
            temporary = path.with_name(f".{path.name}.part")
            temporary.write_bytes(b"")
        else:
            temporary, handle = temporary_file(path.parent, f".{path.name}.", ".part")
    except OSError as error:
        raise WriteError(error.errno, error.strerror, str(path)) from error
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        use_common_mode(temporary)
        temporary.replace(path)
    except OSError as error:
        if error.errno in FULL_DISK:  # the system does not say of which file
            raise WriteError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def temporary_file(folder: Path, prefix: str, suffix: str) -> tuple[Path, int | None]:
    """A new file of a name of its own, and a lock on it, to be closed when it is done with.

    Files of the same prefix and suffix that a killed run has left behind are removed. Those of a run that goes on are
    not: they are locked, or not older than a moment.
    """
    length = len(prefix) + _RANDOM_LETTERS + len(suffix)
    for name in os.listdir(folder):  # noqa: PTH208  a large folder is gone through once
        if name.startswith(prefix) and name.endswith(suffix) and len(name) == length:
            _remove_left_over(folder / name)
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=folder)
    if os.name == "nt":  # an open file cannot be renamed there
        os.close(handle)
        return Path(name), None
    try_lock(handle)
    return Path(name), handle


def _remove_left_over(path: Path) -> None:
    with suppress(OSError):  # another run has done it, or it is not ours
        if not path.is_file() or time.time() - path.stat().st_mtime < _MOMENT:
            return
        handle = os.open(path, os.O_RDWR)
        try:
            if try_lock(handle):
                path.unlink()
        finally:
            os.close(handle)


def _is_device(path: Path) -> bool:
    """Whether a path is no place for a file: /dev/null, a named pipe, or a link of the system such as /dev/stdout."""
    if path.is_symlink() and path.absolute().is_relative_to("/dev"):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def use_common_mode(path: Path, mode: int = 0o666) -> None:
    """Give a file that mkstemp made, which is private, the mode that open() would have given; of folders: 0o777."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)


def refuse_overwriting(outputs: Iterable[tuple[str, Path]], inputs: Iterable[Path]) -> None:
    """Refuse outputs that would overwrite an input or one another: links and spellings of a path do not hide it.

    outputs: what asks for the file ("--out"), and its path. To be called before anything is written.
    """
    read = {identity: path for path in inputs if (identity := _identity(path)) is not None}
    written: dict[object, str] = {}
    for option, path in outputs:
        identity = _identity(path)
        if identity is None:
            continue
        if identity in read:
            same = "" if path == read[identity] else f", which is {read[identity]}"
            raise UsageError(f"{option} would overwrite {path}{same}: that is an input; choose another name")
        if identity in written:
            raise UsageError(f"{written[identity]} and {option} would both be written to {path}: choose other names")
        written[identity] = option


def check_writable(path: Path, option: str) -> None:
    """Refuse an output that cannot be written, before the work that it is for. Nothing is left behind."""
    folder, missing = path.parent, None
    while not folder.exists():
        folder, missing = folder.parent, folder
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{folder} is a file", str(path))
        if path.exists():
            os.close(os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0)))
        elif missing is None:
            # The name itself is tried: it may be too long, or hold what the system does not allow.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            path.unlink()
        else:  # tried as well: permissions do not say all, as of /proc, where nobody makes a folder
            missing.mkdir()
            missing.rmdir()
    except OSError as error:
        if error.errno == errno.ENXIO:  # a named pipe that nobody reads yet
            return
        raise InputError(f"{option}: {unwritable(path, error)}") from error


def _identity(path: Path) -> object:
    """The same for all names of a file, through links; None for what holds nothing, such as /dev/null."""
    real = Path(os.path.realpath(path))  # new/../a.wav is a.wav, even before there is a folder `new`
    try:
        status = real.stat()
    except OSError:  # it is not there yet
        return real
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as temporary:
        # Names that are not UTF-8: as \udcXX, which JSON reads back.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
