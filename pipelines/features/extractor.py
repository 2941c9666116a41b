"""The protocol of a streaming extractor. Pushing a stream in pieces of any size gives the same rows."""

from __future__ import annotations

from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from pipelines.features.spec import ExtractorSpec

Rows = NDArray[np.float32]  # (rows, width)


class AudioExtractor(Protocol):
    """Mono float32 samples in [-1, 1] at `sample_rate` in, rows out.

    Row i of a causal extractor is ready once the samples up to (i + 1) * hop have been pushed. `flush` ends
    the stream: it returns the rows that wait for samples that will not come (padded), and no row whose hop is not
    complete (but for the fraction of a millisecond that resamplers round away), except that a stream with any
    sample at all gives at least one row.
    """

    spec: ExtractorSpec
    sample_rate: int

    @property
    def reach(self) -> int:
        """Rows before a row that it remembers, beyond the samples of the row's own window."""

    def fresh(self, row: int = 0) -> AudioExtractor:
        """The same extractor at the start of another stream, whose rows are wanted from `row` on.

        The network is shared. The stream is pushed from its start all the same, and the rows before cost nothing.
        """

    def due(self, row: int) -> int:
        """How many samples must have been pushed before a row is ready."""

    def push(self, samples: NDArray[np.float32]) -> Rows: ...

    def flush(self) -> Rows: ...


class VideoExtractor(Protocol):
    """RGB frames in, rows out. The caller picks the frame for each row (sampling is on the clock, not here).

    `frames` is (k, height, width, 3) uint8, any size, one frame per row unless `frames_per_row` > 1 (optical
    flow takes the last `frames_per_row` frames at the source's own rate; the caller repeats the first at the
    start). One that remembers the rows before has `fresh` and `reach`, as audio extractors do, and the attribute
    `remembers`.
    """

    spec: ExtractorSpec
    frames_per_row: int

    def push(self, frames: NDArray[np.uint8]) -> Rows: ...


Extractor = AudioExtractor | VideoExtractor


def hears(extractor: Extractor) -> TypeGuard[AudioExtractor]:
    """Whether it takes sound."""
    return extractor.spec.kind == "audio"


def sees(extractor: Extractor) -> TypeGuard[VideoExtractor]:
    """Whether it takes pictures."""
    return extractor.spec.kind == "video"
