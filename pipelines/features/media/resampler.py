"""Resampling of a stream with soxr: pieces of any size give, bit for bit, the resampled whole."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError

LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000  # Hz; what real recordings have is 8 to 192 kHz
# The filter is linear-phase: a resampled sample has seen its neighbours on both sides. Measured for HQ over
# 8 to 192 kHz -> 16 kHz, output comes up to 115 ms after its input.


class Resampler:
    """`push` samples at `source_rate`, get samples at `target_rate`; `flush` gives the rest."""

    def __init__(self, source_rate: int, target_rate: int) -> None:
        for rate in (source_rate, target_rate):
            if not LOWEST_RATE <= rate <= HIGHEST_RATE:
                raise InputError(f"audio at {rate} Hz: cotrans works with {LOWEST_RATE} to {HIGHEST_RATE} Hz")
        self.source_rate = source_rate
        self.target_rate = target_rate
        self._stream: Any = None
        if source_rate != target_rate:
            import soxr

            self._stream = soxr.ResampleStream(source_rate, target_rate, 1, dtype="float32", quality="HQ")

    def push(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n,) -> (m,): what is ready so far."""
        if self._stream is None:
            return samples
        if not len(samples):
            return np.zeros(0, np.float32)
        out: NDArray[np.float32] = self._stream.resample_chunk(np.ascontiguousarray(samples), last=False)
        return out

    def flush(self) -> NDArray[np.float32]:
        """End the stream and return the samples that were held back."""
        if self._stream is None:
            return np.zeros(0, np.float32)
        out: NDArray[np.float32] = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        self._stream = None
        return out
