"""Percentiles of times in constant memory, however long a stream runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

RESOLUTION = 1.05  # each bin is 5 % wider than the one before
SHORTEST = 1e-6  # seconds: what is shorter falls into the first bin
BINS = math.ceil(math.log(1e5 / SHORTEST, RESOLUTION))  # up to a day


@dataclass
class TimeHistogram:
    """Counts of durations in bins that grow by 5 %; percentiles are right to 2.5 %."""

    counts: list[int] = field(default_factory=lambda: [0] * BINS)
    count: int = 0
    total: float = 0.0  # seconds
    largest: float = 0.0  # seconds

    def add(self, seconds: float, times: int = 1) -> None:
        """times: how often it took that long."""
        seconds = max(seconds, 0.0)
        place = int(math.log(seconds / SHORTEST, RESOLUTION)) if seconds > SHORTEST else 0
        self.counts[min(place, BINS - 1)] += times
        self.count += times
        self.total += times * seconds
        self.largest = max(self.largest, seconds)

    def add_all(self, seconds: Iterable[float]) -> None:
        """Some durations; equal ones are counted together."""
        durations = list(seconds)
        if len(durations) == 1:  # as in real time, for each row
            self.add(durations[0])
            return
        for duration, times in Counter(durations).items():
            self.add(duration, times)

    def percentile(self, percent: float) -> float:
        """Seconds; 0 where nothing was counted."""
        wanted = percent / 100 * self.count
        passed = 0
        for place, count in enumerate(self.counts):
            passed += count
            if count and passed >= wanted:
                return float(min(SHORTEST * RESOLUTION ** (place + 0.5), self.largest))
        return 0.0

    def to_dict(self) -> dict[str, float]:
        """Milliseconds by name."""
        values = {f"p{percent}_ms": self.percentile(percent) for percent in (50, 95, 99)}
        mean = self.total / self.count if self.count else 0.0
        return {
            name: round(1e3 * value, 3) for name, value in {**values, "max_ms": self.largest, "mean_ms": mean}.items()
        }
