"""The media of a report: a link that holds as long as both files keep their places, or the bytes themselves."""

from __future__ import annotations

import mimetypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from pipelines.errors import InputError
from pipelines.features.media import probe
from pipelines.pages.packing import base64_text

MOST_EMBEDDED = 256 << 20  # bytes: browsers refuse pages much larger than that


@dataclass(frozen=True)
class MediaLink:
    """What a page needs to play a file."""

    name: str
    kind: Literal["audio", "video"]
    href: str  # relative to the page
    mime: str
    format: str  # as people call it, for the message that a browser cannot play it
    duration: float | None  # seconds
    content: str | None = None  # base64 of the file, where it is embedded

    def to_dict(self, block: str) -> dict[str, Any]:
        """Plain JSON types. block: the id of the element that holds the content."""
        return {
            "name": self.name,
            "kind": self.kind,
            "mime": self.mime,
            "format": self.format,
            **({"href": self.href} if self.content is None else {"block": block}),
        }


def link_media(path: Path, page: Path, embed: bool = False) -> MediaLink:
    """How the page at `page` plays the media file at `path`."""
    info = probe(path)
    codecs = [track.codec for track in (info.video, info.audio) if track is not None]
    return MediaLink(
        name=path.name,
        kind="audio" if info.video is None else "video",
        href=_relative(path, page),
        mime=mimetypes.guess_type(path.name)[0] or "",
        format=", ".join([path.suffix.lstrip(".") or info.format, *codecs]),
        duration=info.duration,
        content=_content(path) if embed else None,
    )


def guessed_link(path: Path, page: Path) -> MediaLink | None:
    """The same for one file of many, by its suffix alone; None where that says nothing."""
    mime = mimetypes.guess_type(path.name)[0] or ""
    kind, suffix = mime.split("/")[0], path.suffix.lstrip(".")
    if kind == "audio":
        return MediaLink(path.name, "audio", _relative(path, page), mime, suffix, None)
    return MediaLink(path.name, "video", _relative(path, page), mime, suffix, None) if kind == "video" else None


def _relative(path: Path, page: Path) -> str:
    """An address that cannot be read as anything but a path, whatever the file is called."""
    try:
        relative = os.path.relpath(path.resolve(), page.resolve().parent)
    except ValueError:  # another drive of Windows
        return path.resolve().as_uri()
    return quote(Path(relative).as_posix(), errors="surrogateescape")


def _content(path: Path) -> str:
    size = path.stat().st_size
    if size > MOST_EMBEDDED:
        raise InputError(
            f"{path}: {size >> 20} MiB are too much to embed (at most {MOST_EMBEDDED >> 20}): leave --embed out, and "
            "the report plays the file from where it is"
        )
    return base64_text(path.read_bytes())
