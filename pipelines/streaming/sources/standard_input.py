"""A container that comes through standard input, and what to do where that cannot work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from pipelines.errors import InputError
from pipelines.features.media import AudioBlock, DamagedMediaError, MediaInfo, MissingTrackError, VideoFrame, decode

RAW_SOUND = "raw sound needs --rate, and --channels and --sample-format where they are not 1 and s16le"
MP4 = (
    "an MP4 whose index is at its end cannot be read from a pipe, which cannot seek: write it with `-movflags "
    "frag_keyframe` or `+faststart`, pipe mkv, ts or wav, or name the file itself"
)


def standard_input() -> BinaryIO:
    """The bytes that are piped in."""
    if sys.stdin is None:  # closed by whoever started us
        raise InputError("standard input is closed: pipe something into `cotrans stream -`")
    return sys.stdin.buffer


class PipedMedia:
    """An open container. What fails is said with what helps."""

    def __init__(self, audio: bool, video: bool) -> None:
        self._file = _NamedInput(standard_input())
        try:
            self._reader = decode(cast(BinaryIO, self._file), audio=audio, video=video, live=True)
        except InputError as error:
            raise self._explained(error) from error

    @property
    def info(self) -> MediaInfo:
        return self._reader.info

    def __iter__(self) -> Iterator[AudioBlock | VideoFrame]:
        try:
            yield from self._reader
        except DamagedMediaError:
            raise  # something came, so the container can be read from a pipe
        except InputError as error:
            raise self._explained(error) from error

    def close(self) -> None:
        self._reader.close()

    def _explained(self, error: InputError) -> InputError:
        missing = error.track if isinstance(error, MissingTrackError) else None
        if missing == "video":
            return error  # it could be read
        if not self._file.head:
            return InputError("-: nothing came through standard input: pipe media into `cotrans stream -`")
        if self._file.head[4:8] != b"ftyp":
            return InputError(f"{error}; {RAW_SOUND}")
        return error if self._file.seekable() or missing == "audio" else InputError(f"-: {MP4}")


class _NamedInput:
    """Standard input, called as the user calls it. Remembers what it begins with."""

    name = "-"

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.head = b""

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.head = self.head or data[:8]
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
