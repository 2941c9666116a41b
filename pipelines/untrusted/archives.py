"""Unpacking .zip and .tar archives that nobody vouches for: nothing leaves the folder, and sizes are held to."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from pipelines.errors import InputError
from pipelines.untrusted.parsing import parsing

BLOCK = 1 << 20  # bytes at a time
MOST_MEMBERS = 200_000
# A compressed file of a few bytes can unpack to a thousand times as much. Annotations, which compress best of what is
# read here, come to 146 times their size, and to 40 MB.
UNPACKED_AT_LEAST, UNPACKED_PER_BYTE = 64 << 20, 32


@dataclass(frozen=True)
class Member:
    """One file of an archive."""

    name: str  # as the archive spells it
    size: int  # bytes, as the archive announces it
    plain: bool  # a regular file: neither a link nor a device
    open: Callable[[], IO[bytes]]


def unpacked_bound(size: int) -> int:
    """Bytes that a compressed file of `size` bytes may come to before it counts as a bomb."""
    return UNPACKED_AT_LEAST + UNPACKED_PER_BYTE * size


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
    with ExitStack() as held:
        members: Iterator[Member]
        with parsing(partial(_unreadable, archive)):
            if zipfile.is_zipfile(archive):
                opened = held.enter_context(zipfile.ZipFile(archive))
                members = (
                    Member(entry.filename, entry.file_size, _is_plain(entry), partial(opened.open, entry))
                    for entry in opened.infolist()
                    if not entry.is_dir()
                )
            else:
                tar = held.enter_context(_opened_tar(archive))
                members = (
                    Member(entry.name, entry.size, entry.isfile(), partial(_stream, tar, entry))
                    for entry in tar
                    if not entry.isdir()
                )
        yield _guarded(members, archive)


def _opened_tar(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive, "r:*")
    except tarfile.ReadError as error:  # whose own text tells of every compression in turn
        raise InputError(f"{archive} is no .zip or .tar archive, or was cut off: fetch it again") from error


def _guarded(members: Iterator[Member], archive: Path) -> Iterator[Member]:
    """The same members; an archive that turns out to be damaged on the way is one line."""
    while True:
        with parsing(partial(_unreadable, archive)):
            member = next(members, None)
        if member is None:
            return
        yield member


def _unreadable(archive: Path, reason: str) -> InputError:
    return InputError(f"{archive} is not a readable archive ({reason}): fetch it again")


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


def _block(archive: Path, source: IO[bytes]) -> bytes:
    with parsing(partial(_unreadable, archive)):
        return source.read(BLOCK)


def _write(archive: Path, member: Member, target: Path) -> None:
    """Copy one member, and never more than it announced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    left = member.size
    with parsing(partial(_unreadable, archive)):
        source = member.open()
    with source, target.open("xb") as file:
        while block := _block(archive, source):
            left -= len(block)
            if left < 0:
                raise InputError(
                    f"{archive} is refused: '{member.name}' holds more than the {member.size:,} bytes it says"
                )
            file.write(block)
    if left:
        raise InputError(f"{archive} is cut off in '{member.name}': fetch it again")
