"""The video track of a source: frames in strictly increasing media time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.features.media.info import VideoFrame
from pipelines.features.media.picture import Matrix, display_matrix, to_rgb
from pipelines.features.media.timeline import Timeline, TrackReader, timestamp

LONGEST_STILL = 10.0  # seconds after which a picture that stays is given again
USUAL_DURATION = 0.04  # seconds; for a single picture and for tracks that state no rate


def image_of(frame: VideoFrame) -> NDArray[np.uint8]:
    return frame.image


def black(width: int, height: int) -> NDArray[np.uint8]:
    return np.zeros((height, width, 3), np.uint8)


class VideoTrackReader(TrackReader):
    """Places decoded pictures in media time, from `start` on."""

    def __init__(self, timeline: Timeline, codec: str, rate: float | None, size: tuple[int, int], start: float) -> None:
        super().__init__(timeline, start)
        self.shown = 0  # pictures that came from the source
        self._usual = 1.0 / rate if rate and timeline.plausible(1.0 / rate) else USUAL_DURATION
        self._codec = codec
        self._size = size
        self._matrices: dict[float, Matrix] = {}  # by rotation: the full matrix, which knows mirroring too
        self._last: VideoFrame | None = None  # the newest frame, maybe a repetition
        self._picture: VideoFrame | None = None  # the newest that is none: repetitions form no chain
        self._before: VideoFrame | None = None  # the picture that is on display at `start`

    @property
    def end(self) -> float:
        """Media time up to which the track is known."""
        return self._last.end if self._last else self._start

    def push(self, frame: Any) -> Iterator[VideoFrame]:
        """The frame for an `av.VideoFrame`, unless it comes before the start or out of order."""
        ticks = getattr(frame, "duration", 0)  # PyAV 14.2 does not tell it
        stated = float(ticks * frame.time_base) if ticks and frame.time_base else 0.0
        duration = stated if self._timeline.plausible(stated) else self._usual
        time = self._timeline.place(timestamp(frame), duration)
        self.shown += 1
        picture = VideoFrame(time, duration, partial(to_rgb, frame, self._matrix(frame)))
        if time < self._start - 1e-6:
            self._before = picture
            return
        if self._before is not None:
            before, self._before = self._before, None
            if before.end > self._start + 1e-6 and time > self._start + 1e-6:
                self._picture = VideoFrame(self._start, time - self._start, before.convert)
                yield from self._show(self._picture)
        yield from self._stay(time)
        if self._last is None or time > self._last.time:
            self._picture = picture
            yield from self._show(picture)
        elif self._filled:
            self.late += 1

    def fill_to(self, time: float) -> Iterator[VideoFrame]:
        """The last picture (black before the first) goes on up to media time `time`."""
        if time <= self.end:
            return
        self._filled = True
        if self._last is None:
            width, height = self._size
            self._picture = VideoFrame(self._start, time - self._start, partial(black, width, height))
            yield from self._show(self._picture)
        else:
            yield from self._repeat(self._last.end, time)
        yield from self._stay(time)

    def finish(self) -> Iterator[VideoFrame]:
        """Repetitions of a last picture that stays for long."""
        yield from self._stay(self.end)

    def _stay(self, until: float) -> Iterator[VideoFrame]:
        """Repeat a picture that stays for long, so that its rows come a few at a time, not all at once."""
        while self._last is not None and until - self._last.time > LONGEST_STILL:
            yield from self._repeat(self._last.time + LONGEST_STILL, until)

    def _repeat(self, time: float, until: float) -> Iterator[VideoFrame]:
        assert self._picture is not None
        yield from self._show(VideoFrame(time, until - time, partial(image_of, self._picture)))

    def _matrix(self, frame: Any) -> Matrix:
        if frame.rotation not in self._matrices:
            self._matrices[frame.rotation] = display_matrix(frame, self._codec)
        return self._matrices[frame.rotation]

    def _show(self, frame: VideoFrame) -> Iterator[VideoFrame]:
        self._last = frame
        yield frame
