"""What a media source holds, and the pieces that decoding yields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import SourceError


class DamagedMediaError(SourceError):
    """Raised after the last good piece of a source that is damaged or ends in the middle."""

    def __init__(self, source: str, reason: str, seconds: float) -> None:
        self.reason = reason
        self.seconds = seconds  # media time up to which the source was decoded
        super().__init__(source, f"{reason}; {seconds:.2f} s were decoded")


class MissingTrackError(SourceError):
    """Raised for a source that can be read and lacks a track that was asked for."""

    def __init__(self, source: str, track: Literal["audio", "video"], needed_for: str = "") -> None:
        self.track = track
        super().__init__(source, f"has no {track} track{needed_for}")


@dataclass(frozen=True)
class AudioTrack:
    codec: str
    rate: int  # Hz
    channels: int
    layout: str  # "mono", "stereo", "5.1", ...
    duration: float | None  # seconds


@dataclass(frozen=True)
class VideoTrack:
    codec: str
    width: int  # pixels as shown, that is, after the rotation
    height: int
    rate: float | None  # mean frames per second; None where the source does not say
    rotation: int  # degrees clockwise by which the stored picture is turned for display
    duration: float | None  # seconds
    pixel_aspect: float  # width of a pixel to its height, as shown


@dataclass(frozen=True)
class MediaInfo:
    source: str
    format: str  # ffmpeg's name of the container
    duration: float | None  # seconds; None for live sources
    audio: AudioTrack | None
    video: VideoTrack | None
    size: int | None  # bytes of a local file


@dataclass(frozen=True, eq=False)
class AudioBlock:
    """Consecutive blocks join without gap or overlap: silence stands where the source has none."""

    samples: NDArray[np.float32]  # (n,) mono, nominally in [-1, 1]
    rate: int  # Hz
    time: float  # media seconds of the first sample

    @property
    def end(self) -> float:
        return self.time + len(self.samples) / self.rate


@dataclass(frozen=True, eq=False)
class VideoFrame:
    """One picture, converted to RGB when `image` is first asked for: most frames are never looked at."""

    time: float  # media seconds; strictly increasing within a source
    duration: float  # seconds until the next frame, as far as the source says
    convert: Callable[[], NDArray[np.uint8]]
    _lock: Lock = field(default_factory=Lock, repr=False)  # several models may look at a frame at the same time

    @property
    def image(self) -> NDArray[np.uint8]:
        """(height, width, 3) RGB, upright."""
        with self._lock:
            return self._image

    @cached_property
    def _image(self) -> NDArray[np.uint8]:
        return self.convert()

    @property
    def end(self) -> float:
        return self.time + self.duration
