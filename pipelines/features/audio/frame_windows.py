"""Frames of streams: computed once, those of several streams in one go, and kept for as long as a window needs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from pipelines.features.audio.mel import Frames, Samples


class FrontEnd(Protocol):
    """Samples to frames on a fixed grid; a frame depends on its own samples alone."""

    @property
    def sample_rate(self) -> int: ...

    @property
    def frame_hop(self) -> int:
        """Samples from one frame to the next."""

    @property
    def bands(self) -> int: ...

    def frames(self, samples: Samples) -> Frames:
        """(samples,) to (frames, bands): every frame that fits into `samples`, the first one at its start."""


@runtime_checkable
class FramesTogether(Protocol):
    """A `FrontEnd` that computes frames of several streams in one go."""

    def frames_together(self, streams: Sequence[Samples]) -> list[Frames]:
        """`frames` of the samples of each stream."""


class FrameWindows:
    """Frames of a stream, kept only as long as a later window may need them."""

    def __init__(self, front_end: FrontEnd, first: int) -> None:
        """`first` is the first frame ever needed; before frame 0 lies silence."""
        self.front_end = front_end
        self._first = first  # index of self._frames[0]
        self._frames: Frames = np.zeros((0, front_end.bands), np.float32)
        # What no frame has been made of, in the pieces in which it came.
        self._samples: list[Samples] = [np.zeros(max(0, -first) * front_end.frame_hop, np.float32)]
        self._skip = max(0, first) * front_end.frame_hop

    def push(self, samples: Samples) -> None:
        if self._skip:
            skipped = min(self._skip, len(samples))
            self._skip -= skipped
            samples = samples[skipped:]
        self._samples.append(samples.copy())  # callers may reuse their buffer

    @property
    def waiting(self) -> Samples:
        """(samples,) of which frames are to be made."""
        return np.concatenate(self._samples)

    def add(self, frames: Frames, samples: Samples) -> None:
        """The frames (frames, bands) that were made of what was waiting."""
        self._samples = [samples[len(frames) * self.front_end.frame_hop :].copy()]
        self._frames = np.concatenate([self._frames, frames])

    def window(self, begin: int, count: int) -> Frames:
        """(count, bands): frames begin to begin + count, which have been computed."""
        return self._frames[begin - self._first : begin - self._first + count]

    def forget_before(self, frame: int) -> None:
        """Frames before `frame` will not be asked for again."""
        known = min(frame - self._first, len(self._frames))
        if known > 0:
            self._frames = self._frames[known:].copy()
            self._first += known

    def skip_to(self, frame: int) -> None:
        """As `forget_before`; frames before `frame` that were never computed will not be."""
        self.forget_before(frame)
        if frame <= self._first:
            return
        passed = (frame - self._first) * self.front_end.frame_hop  # samples: no frame is left
        samples = self.waiting
        self._samples = [samples[passed:].copy()]
        self._skip += max(0, passed - len(samples))
        self._first = frame


def compute_frames(streams: Sequence[FrameWindows]) -> None:
    """All frames that the sound of some streams gives."""
    by_front_end: dict[FrontEnd, list[FrameWindows]] = defaultdict(list)
    for stream in streams:
        by_front_end[stream.front_end].append(stream)
    for front_end, members in by_front_end.items():
        samples = [stream.waiting for stream in members]
        if isinstance(front_end, FramesTogether):
            frames = front_end.frames_together(samples)
        else:
            frames = [front_end.frames(one) for one in samples]
        for stream, new, one in zip(members, frames, samples, strict=True):
            stream.add(new, one)
