"""Media that names other files: playlists, whatever their own name is. They may name what lies beside or below them."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from pipelines.errors import SourceError
from pipelines.files import is_file

_BEGINNINGS = (b"#EXTM3U", b"ffconcat version", b"<?xml", b"<MPD", b"v=0")  # HLS, ffmpeg's own list, DASH, SDP
_LARGEST = 1 << 22  # bytes of a playlist that are looked at; a longer one is refused
_DEEPEST = 4  # playlists that name playlists
# Attributes and elements that hold the name of a file, and the lines of a list.
_NAMES = (
    re.compile(r"""\b(?:URI|media|initialization|sourceURL|index)\s*=\s*["']([^"']*)["']""", re.IGNORECASE),
    re.compile(r"<(?:BaseURL|Location)[^>]*>([^<]*)<", re.IGNORECASE),
    re.compile(r"^\s*file\s+(.+?)\s*$", re.MULTILINE),
)


def check_playlist(path: Path, depth: int = 0) -> None:
    """Refuse a local file that would make ffmpeg read another one outside of its folder, or from the network."""
    with path.open("rb") as file:
        start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
        if not start.startswith(_BEGINNINGS):
            return
        file.seek(0)
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST or depth > _DEEPEST:
        raise SourceError(str(path), "it is a playlist that is longer or nested deeper than any real one")
    for name in _named(data.decode("utf-8", "replace"), lines=start.startswith(b"#EXTM3U")):
        if not _inside(name):
            raise SourceError(
                str(path), f"it is a playlist and names '{name}', which is not in its folder: name that file itself"
            )
        beside = path.parent / name
        if is_file(beside) and not beside.samefile(path):
            check_playlist(beside, depth + 1)


def _named(text: str, lines: bool) -> list[str]:
    names = [match.strip().strip("'\"") for pattern in _NAMES for match in pattern.findall(text)]
    if lines:
        names += [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return names


def _inside(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return bool(parts) and not parts[0].startswith("/") and ".." not in parts and ":" not in name
