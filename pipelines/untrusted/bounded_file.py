"""Reading a binary file that nobody vouches for."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, TypeVar


class UnreadableError(Exception):
    """The file could not be opened or read; what else fails while it is open is no business of this module."""


T = TypeVar("T")


def _readable(read: Callable[[], T]) -> T:
    try:
        return read()
    except OSError as problem:
        raise UnreadableError(problem.strerror or str(problem)) from problem
    except (zipfile.BadZipFile, zlib.error) as problem:
        raise UnreadableError(f"the archive is damaged ({problem})") from problem


def opened(source: Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    """A path opened, or a file as it is, which stays open."""
    return _readable(lambda: source.open("rb")) if isinstance(source, Path) else nullcontext(source)


class BoundedFile:
    """A binary file whose `read` allocates little more than is there: a damaged length may say anything."""

    BLOCK = 1 << 26  # bytes at a time: a false length costs at most one block

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        if size <= self.BLOCK:
            return self._piece(size)
        pieces = []
        while size > 0:
            piece = self._piece(min(size, self.BLOCK))
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def readline(self) -> bytes:
        return _readable(lambda: self._file.readline(self.BLOCK))

    def _piece(self, size: int) -> bytes:
        return _readable(lambda: self._file.read(size))

    def tell(self) -> int:
        return self._file.tell()
