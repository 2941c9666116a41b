"""The audio track of a source as one unbroken mono stream: gaps become silence, overlaps are dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.features.media.downmix import to_mono
from pipelines.features.media.info import AudioBlock
from pipelines.features.media.resampler import Resampler
from pipelines.features.media.timeline import Timeline, TrackReader, timestamp

JITTER = 0.1  # seconds by which timestamps may differ from the count of samples before the count is corrected
SILENCE = 1.0  # seconds of silence per block, so that a long gap needs no memory


class AudioTrackReader(TrackReader):
    """Decoded audio frames in, blocks at `rate` (None: the track's own) from media time `start` on out."""

    def __init__(self, timeline: Timeline, track_rate: int, rate: int | None, start: float) -> None:
        super().__init__(timeline, start)
        self.track_rate = track_rate
        self.rate = rate or track_rate
        self.heard = 0  # samples that came from the source, at the track's rate
        self.not_finite = 0  # samples that were NaN or infinite and are now 0
        self._count = 0  # samples so far, silence included, at the track's rate
        self._emitted = 0  # samples so far at `rate`
        self._resampler = Resampler(track_rate, self.rate)
        self._other: Resampler | None = None  # for a track that changes its rate in the middle

    @property
    def end(self) -> float:
        """Media time up to which the track is known."""
        return self._start + self._count / self.track_rate

    def push(self, frame: Any) -> Iterator[AudioBlock]:
        """Blocks that are ready after an `av.AudioFrame`."""
        duration = frame.samples / frame.sample_rate
        time = self._timeline.place(timestamp(frame), duration)
        samples = self.finite(to_mono(frame))
        yield from self.place(self._at_track_rate(samples, frame.sample_rate), time)

    def finite(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """The samples with 0 for those that are NaN or infinite, which are counted."""
        finite = np.isfinite(samples)
        if finite.all():
            return samples
        self.not_finite += int((~finite).sum())
        return np.where(finite, samples, np.float32(0))

    def place(self, samples: NDArray[np.float32], time: float) -> Iterator[AudioBlock]:
        """Blocks that are ready after (n,) samples at media time `time`."""
        late = round((time - self._start) * self.track_rate) - self._count
        # The first samples are placed exactly; afterwards the count of samples is the better clock.
        if self.heard and abs(late) <= JITTER * self.track_rate:
            late = 0
        if late > 0:
            yield from self._silence(late)
        elif late < 0:
            if self._filled and -late >= len(samples):
                self.late += 1
            samples = samples[-late:]
        if len(samples):
            self.heard += len(samples)
            yield from self._emit(samples)

    def fill_to(self, time: float) -> Iterator[AudioBlock]:
        """Silence up to media time `time`."""
        self._filled = True
        yield from self._silence(round((time - self._start) * self.track_rate) - self._count)

    def flush(self) -> Iterator[AudioBlock]:
        """What the resampler holds back."""
        yield from self._block(self._resampler.flush())

    def _at_track_rate(self, samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
        if rate == self.track_rate:
            return samples
        if self._other is None or self._other.source_rate != rate:
            self._other = Resampler(rate, self.track_rate)
        return self._other.push(samples)

    def _silence(self, count: int) -> Iterator[AudioBlock]:
        while count > 0:
            piece = min(count, int(SILENCE * self.track_rate))
            yield from self._emit(np.zeros(piece, np.float32))
            count -= piece

    def _emit(self, samples: NDArray[np.float32]) -> Iterator[AudioBlock]:
        self._count += len(samples)
        yield from self._block(self._resampler.push(samples))

    def _block(self, samples: NDArray[np.float32]) -> Iterator[AudioBlock]:
        if len(samples):
            time = self._start + self._emitted / self.rate
            self._emitted += len(samples)
            yield AudioBlock(samples, self.rate, time)
