"""Writing files so that a killed run leaves no half file, and telling one file from another."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# No space, no quota, file too large: whatever the system calls a disk that takes no more.
FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
BLOCK = 1 << 20  # bytes read at a time


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
    behind is written over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if locked:
        temporary = path.with_name(f".{path.name}.part")
        temporary.write_bytes(b"")
    else:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        # mkstemp makes files private; give the result the mode that open() would have given.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
