"""Rows that sum up the frames of a window: statistics of each band, one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import UsageError
from pipelines.features.extractor import Rows

Windows = NDArray[np.float64]  # (rows, frames, bands)
Statistic = Callable[[Windows], NDArray[Any]]  # to (rows, bands)

STATISTICS: Mapping[str, Statistic] = {
    "mean": lambda windows: windows.mean(1),
    "std": lambda windows: windows.std(1),
    "max": lambda windows: windows.max(1),
    "min": lambda windows: windows.min(1),
}


def chosen_statistics(
    extractor: str, statistics: str, known: Mapping[str, Statistic] = STATISTICS
) -> Sequence[Statistic]:
    """Those that an option names, joined by +. extractor: its name, for a message."""
    names = statistics.split("+")
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"{extractor} has no statistic '{unknown[0]}': choose from {', '.join(known)}")
    return [known[name] for name in names]


def summed(statistics: Sequence[Statistic]) -> Callable[[NDArray[np.float32]], Rows]:
    """A function from windows of frames to their statistics."""

    def rows_of(windows: NDArray[np.float32]) -> Rows:
        """(rows, frames, bands) to (rows, statistics × bands)."""
        return np.concatenate([of(windows.astype(np.float64)) for of in statistics], 1).astype(np.float32)

    return rows_of
