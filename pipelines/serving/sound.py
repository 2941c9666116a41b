"""How loud a source is: the largest samples of short stretches of sound."""

from __future__ import annotations

from collections import deque

import numpy as np

from pipelines.features.media import AudioBlock
from pipelines.serving.ring import Ring

STEP = 0.05  # seconds of sound in one peak
RECENT_PEAKS = 6000  # five minutes
FULL = 1000  # a peak of 1


class SoundLevel:
    """Sound is measured in the thread that plays it, a few microseconds for a piece; the samples are not kept."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int]] = deque(maxlen=RECENT_PEAKS)  # which stretch, peak
        self._growing = (0, 0)  # the stretch that is not over yet
        self._peaks = Ring(RECENT_PEAKS)

    def played(self, block: AudioBlock, time: float) -> None:
        """From the thread that plays the source. time: seconds of the block's first sample."""
        magnitudes = np.abs(block.samples)
        if not len(magnitudes):
            return
        first, last = int(time / STEP), int((time + (len(magnitudes) - 1) / block.rate) / STEP)
        borders = np.ceil((np.arange(first + 1, last + 1) * STEP - time) * block.rate).astype(np.int64)
        starts = np.concatenate([[0], np.clip(borders, 0, len(magnitudes) - 1)])
        peaks = np.minimum(FULL * np.nan_to_num(np.maximum.reduceat(magnitudes, starts)), FULL)
        for stretch, peak in enumerate(np.rint(peaks).astype(int).tolist(), first):
            if stretch != self._growing[0]:
                self._waiting.append(self._growing)
                self._growing = (stretch, 0)
            self._growing = (stretch, max(peak, self._growing[1]))

    def collect(self, number: int) -> bool:
        """Write down what waits, as part of message `number`; whether there was anything."""
        waiting = len(self._waiting)
        for _ in range(waiting):
            stretch, peak = self._waiting.popleft()
            self._peaks.add(number, f"{stretch},{peak}")
        return waiting > 0

    def since(self, number: int) -> str | None:
        """`[stretch, peak, …]` after message `number`, in order of time."""
        _, peaks = self._peaks.since(number)
        return f"[{','.join(peaks)}]" if peaks else None
