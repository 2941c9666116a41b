"""A lock between processes that the operating system drops when its holder dies, however it dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class LockBusyError(Exception):
    """Another process holds the lock (only with `wait=False`)."""


@contextmanager
def file_lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock file `path`, which is removed at the end.

    Without `wait`, raises `LockBusyError` when another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle, wait)
        except BaseException:
            os.close(handle)
            raise
        # The previous holder may have removed the file between our open and our lock: then we hold a lock
        # that nobody else can see, and have to try again.
        if _is_file(handle, path):
            break
        os.close(handle)
    try:
        yield
    finally:
        if sys.platform == "win32":
            os.close(handle)  # Windows does not remove an open file
            path.unlink(missing_ok=True)
        else:
            path.unlink(missing_ok=True)
            os.close(handle)


def try_lock(handle: int) -> bool:
    """Lock an open file for as long as it is open; False where another process has it."""
    try:
        _lock(handle, wait=False)
    except LockBusyError:
        return False
    return True


def _lock(handle: int, wait: bool) -> None:
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        raise LockBusyError from error


def _is_file(handle: int, path: Path) -> bool:
    if sys.platform == "win32":
        return path.exists()
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
