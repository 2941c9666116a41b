"""One pass over a source: audio blocks and video frames in the order in which they are stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType

from pipelines.errors import SourceError, UsageError
from pipelines.features.media.container import Source, local_path, source_name
from pipelines.features.media.ffmpeg_reader import FfmpegReader
from pipelines.features.media.info import AudioBlock, DamagedMediaError, MediaInfo, VideoFrame
from pipelines.features.media.plain_audio import PlainAudio


def decode(
    source: Source,
    *,
    audio: bool = True,
    video: bool = False,
    audio_rate: int | None = None,
    start: float = 0.0,
    duration: float | None = None,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    live: bool = False,
    in_step: bool = True,
    pictures_from: float = 0.0,
) -> MediaReader:
    """Open a source for one pass; iterate over the result for its blocks and frames.

    `audio_rate` None keeps the track's own rate. `start` and `duration` cut a piece out, in media seconds; items
    keep their media times, and the first audio sample stands exactly at `start`. `format` and `options` are
    ffmpeg's (`format="v4l2"`, `options={"rtsp_transport": "tcp"}`). `live` trades throughput for latency.

    A wanted track that is not there is an InputError at once. With both tracks wanted, both end together: the
    shorter one goes on with silence or with its last picture; not so without `in_step`, where each is what it would be
    alone. Pictures before `pictures_from` are not decoded, but for some just before it; the sound is. A source that is
    damaged or ends in the middle yields what can be decoded and then raises DamagedMediaError; one that yields nothing
    at all, InputError.
    """
    if not (audio or video):
        raise UsageError("nothing to decode: neither audio nor video was asked for")
    if start < 0 or (duration is not None and duration <= 0):
        raise UsageError(f"cannot decode from {start} s for {duration} s: both must be positive")
    stop = math.inf if duration is None else start + duration
    path = local_path(source, format)
    if path is not None and not video and format is None and not options:
        plain = PlainAudio.open(path, audio_rate, start, stop)
        if plain is not None:
            return MediaReader(source_name(source), plain, start, stop)
    reader = FfmpegReader(source, audio, video, audio_rate, start, stop, format, options, live, in_step, pictures_from)
    return MediaReader(source_name(source), reader, start, stop)


class MediaReader:
    """An open source. `info` is known at once; `damage` (what is wrong, in one line) after the last item."""

    def __init__(self, name: str, reader: PlainAudio | FfmpegReader, start: float, stop: float) -> None:
        self.name = name
        self.start = start
        self._stop = stop
        self._reader = reader

    @property
    def info(self) -> MediaInfo:
        return self._reader.info

    @property
    def damage(self) -> str | None:
        return self._reader.damage

    @property
    def flawless(self) -> bool:
        """Whether nothing wrong was seen so far."""
        return self._reader.flawless

    def __iter__(self) -> Iterator[AudioBlock | VideoFrame]:
        items: Iterable[AudioBlock | VideoFrame] = self._reader
        try:
            for item in items:
                cut = self._before_stop(item)
                if cut is not None:
                    yield cut
        finally:
            self.close()
        empty = self._reader.empty_tracks()
        if empty:
            why = f" ({self.damage})" if self.damage else ""
            raise SourceError(self.name, f"no {' and no '.join(empty)} could be decoded from {self.start:g} s on{why}")
        if self.damage is not None:
            raise DamagedMediaError(self.name, self.damage, self._reader.end)

    def _before_stop(self, item: AudioBlock | VideoFrame) -> AudioBlock | VideoFrame | None:
        """The part of an item that lies before the wanted end."""
        if item.end <= self._stop:
            return item
        if item.time >= self._stop - 1e-9:
            return None
        if isinstance(item, VideoFrame):
            return VideoFrame(item.time, self._stop - item.time, lambda: item.image)
        return AudioBlock(item.samples[: round((self._stop - item.time) * item.rate)], item.rate, item.time)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> MediaReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
