"""Which samples each row of an audio feature stream sees, and when the row is due."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import get_args

from pipelines.errors import ConfigurationError, UsageError
from pipelines.features.row_clock import RowClock
from pipelines.features.spec import Align


@dataclass(frozen=True)
class SampleClock:
    """Row i stands for the hop from i * hop to (i + 1) * hop seconds.

    causal: its window ends with the hop, so it has seen nothing later. start: its window begins with the hop.
    centre: its window is centred on the start of the hop. Outside the stream there is silence.
    """

    hop: float  # seconds
    sample_rate: int
    window: int  # samples
    align: Align = "causal"

    def __post_init__(self) -> None:
        if self.align not in get_args(Align):
            raise UsageError(f"unknown alignment '{self.align}': choose from {', '.join(get_args(Align))}")
        if not self.hop * self.sample_rate >= 1:
            raise ConfigurationError(
                f"a hop of {self.hop} s is shorter than one sample at {self.sample_rate} Hz: choose a longer"
            )

    def hop_end(self, row: int) -> int:
        """Number of samples before the end of the row's hop."""
        return floor((row + 1) * self.hop * self.sample_rate + 1e-6)

    def begin(self, row: int) -> int:
        """Index of the first sample of the row's window; negative before the stream."""
        if self.align == "causal":
            return self.hop_end(row) - self.window
        begin = self.hop_end(row - 1)
        return begin if self.align == "start" else begin - self.window // 2

    def due(self, row: int) -> int:
        """How many samples must have come before the row can be given."""
        return max(self.begin(row) + self.window, self.hop_end(row))

    def rows(self, samples: int) -> int:
        """Rows of a stream of `samples`: one per complete hop, and at least one if there is anything."""
        return RowClock(self.hop, self.align).rows(samples / self.sample_rate)
