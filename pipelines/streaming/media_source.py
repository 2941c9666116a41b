"""Opening what a source names for one pass of decoding."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event
from typing import BinaryIO, Protocol

from pipelines.errors import InputError, MissingDependencyError
from pipelines.features.media import AudioBlock, MediaInfo, VideoFrame, decode
from pipelines.streaming.devices import check_device, device_target
from pipelines.streaming.options import PlayOptions
from pipelines.streaming.pcm import PcmReader
from pipelines.streaming.source import StreamSource

NETWORK_OPTIONS = {
    # Sound that is lost on the way cannot be asked for again over UDP.
    "rtsp": {"rtsp_transport": "tcp"},
    "rtsps": {"rtsp_transport": "tcp"},
}


class OpenMedia(Protocol):
    """What decoding reads: `MediaReader` and `PcmReader`."""

    @property
    def info(self) -> MediaInfo: ...

    def __iter__(self) -> Iterator[AudioBlock | VideoFrame]: ...

    def close(self) -> None: ...


def open_media(source: StreamSource, audio: bool, video: bool, play: PlayOptions, stop: Event) -> OpenMedia:
    """Open a source; a track that the features need and the source lacks is an error at once."""
    wanted = "audio" if audio and not video else "video" if video and not audio else "audio and video"
    if source.kind == "pipe":
        if play.pcm is None:
            return decode(_standard_input(), audio=audio, video=video, live=True)
        if video:
            raise InputError(f"-: raw sound has no pictures, but the model's features need {wanted}")
        return PcmReader(_standard_input(), play.pcm, stop)
    if source.device:
        check_device(source, audio, video)
        target, format = device_target(source)
        try:
            return decode(target, audio=audio, video=video, format=format, live=True)
        except MissingDependencyError as error:
            raise MissingDependencyError(f"{source.name}: {error}") from error
    options = NETWORK_OPTIONS.get(source.target.partition("://")[0])
    live = source.kind == "url" and not play.fast
    try:
        return decode(
            source.target,
            audio=audio,
            video=video,
            start=play.start,
            duration=play.duration,
            options=options,
            live=live,
        )
    except InputError as error:
        if str(error).endswith(("has no audio track", "has no video track")):
            raise InputError(f"{error}, but the model's features need {wanted}") from error
        raise


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # closed by whoever started us
        raise InputError("standard input is closed: pipe something into `cotrans stream -`")
    return sys.stdin.buffer
