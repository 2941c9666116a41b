"""Unpacking .zip and .tar archives that nobody vouches for: nothing leaves the folder, and sizes are held to."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from pipelines.errors import InputError

BLOCK = 1 << 20  # bytes at a time
MOST_MEMBERS = 200_000
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)


@dataclass(frozen=True)
class Member:
    """One file of an archive."""

    name: str  # as the archive spells it
    size: int  # bytes, as the archive announces it
    plain: bool  # a regular file: neither a link nor a device
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, folder: Path, place: Callable[[str], str | None], most_bytes: int) -> int:
    """Write the files of `archive` below `folder`; the number of files.

    place: where a member goes, relative to `folder`; None leaves it out. most_bytes: what all files together may come
    to; an archive that announces or holds more is refused before the disk is full of it.
    """
    count = total = 0
    with _members(archive) as members:
        for number, member in enumerate(members):
            if number >= MOST_MEMBERS:
                raise InputError(f"{archive} holds more than {MOST_MEMBERS:,} files: not the archive that was expected")
            _check_inside(archive, member.name)
            target = place(member.name)
            if target is None:
                continue
            _check_inside(archive, target)
            if not member.plain:
                raise InputError(f"{archive} is refused: its member '{member.name}' is a link or a device, not a file")
            total += member.size
            if total > most_bytes:
                raise InputError(
                    f"{archive} is refused: it unpacks to more than {most_bytes:,} bytes, which it should not hold"
                )
            _write(archive, member, folder / target)
            count += 1
    return count


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[Member]]:
    """The files of an archive, whichever kind it is."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                yield (
                    Member(entry.filename, entry.file_size, _is_plain(entry), lambda entry=entry: opened.open(entry))  # type: ignore[misc]
                    for entry in opened.infolist()
                    if not entry.is_dir()
                )
        else:
            with tarfile.open(archive, "r:*") as tar:
                yield (
                    Member(entry.name, entry.size, entry.isfile(), lambda entry=entry: _stream(tar, entry))  # type: ignore[misc]
                    for entry in tar
                    if not entry.isdir()
                )
    except _DAMAGED as error:
        raise InputError(f"{archive} is not a readable archive ({error}): fetch it again") from error


def _is_plain(entry: zipfile.ZipInfo) -> bool:
    kind = (entry.external_attr >> 16) & 0o170000  # Unix file type, where the archive has one
    return kind in (0, 0o100000)


def _stream(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    stream = tar.extractfile(entry)
    assert stream is not None  # only plain files are opened
    return stream


def _check_inside(archive: Path, name: str) -> None:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or parts[0].startswith("/") or ".." in parts or ":" in parts[0] or "\0" in name:
        raise InputError(f"{archive} is refused: its member '{name}' would be written outside of the folder")


def _write(archive: Path, member: Member, target: Path) -> None:
    """Copy one member, and never more than it announced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    left = member.size
    with member.open() as source, target.open("xb") as file:
        while block := source.read(BLOCK):
            left -= len(block)
            if left < 0:
                raise InputError(
                    f"{archive} is refused: '{member.name}' holds more than the {member.size:,} bytes it says"
                )
            file.write(block)
    if left:
        raise InputError(f"{archive} is cut off in '{member.name}': fetch it again")
