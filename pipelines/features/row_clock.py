"""The row clock: when a row stands, which stretch of media it covers, and which frames it is made of.

Row i covers one hop of media, its chunk: `[t − hop, t)` for causal rows (t is the row's time), `[t − hop/2, t + hop/2)`
for centred ones and `[t, t + hop)` for rows that start at t. Its frames are

- one picture (`resnet50`): the chunk-centre frame, that is, the one on display in the middle of the chunk
  (`frame="centre"`, the default), or the newest of the chunk (`frame="last"`, half a hop fresher);
- a stack of n pictures (optical flow) at the source's own rate: the last n of the chunk and before (causal), n around
  t (centre) or n from t on (start). At 24 frames/s, 4 rows/s and n = 6 the causal stack is exactly the chunk.

A causal row has seen no frame at or after its time. Where the past is too short the first frame is repeated; a causal
row that stands before the first frame sees black. A row is given out when a frame arrives that ends its hop, and a
source of d seconds has floor(d / hop) rows, at least one: the same rule as for audio.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pipelines.errors import InputError
from pipelines.features.spec import Align

FrameChoice = Literal["centre", "last"]
Frame = TypeVar("Frame")

# Matroska and FLV round timestamps to milliseconds, and resamplers round the length: a frame or an end that is 0.5 ms
# off the boundary is on the boundary.
ROUNDING = 0.6e-3  # seconds


@dataclass(frozen=True)
class RowClock:
    """Times of rows, relative to the start of the stream."""

    hop: float  # seconds
    align: Align = "causal"

    @property
    def tolerance(self) -> float:
        return min(ROUNDING, self.hop / 10)

    def time(self, index: int) -> float:
        """As `FeatureSpec.row_time`."""
        return (index + 1) * self.hop if self.align == "causal" else index * self.hop

    def complete_at(self, index: int) -> float:
        """Media time that must be reached before row `index` is given out."""
        return (index + 1) * self.hop - self.tolerance

    def rows(self, seconds: float) -> int:
        """How many rows a stream of this length has."""
        return max(1, math.floor((seconds + self.tolerance) / self.hop)) if seconds > 0 else 0

    def newest_frame(self, index: int, stack: bool, frame: FrameChoice) -> float:
        """The anchor of a row: its frame is the last one at or before this time."""
        end = {"causal": 0.0, "centre": 0.5, "start": 1.0}[self.align] * self.hop + self.time(index)
        if stack:
            return end - self.tolerance if self.align == "causal" else self.time(index) + self.tolerance
        return end - self.hop / 2 + self.tolerance if frame == "centre" else end - self.tolerance


class MissingPastError(Exception):
    """The frames of a stream begin too late for the first row that is wanted of it."""


class FramePicker(Generic[Frame]):
    """Pushed the frames of a stream in order, gives the frames of each row. Holds no more frames than rows need.

    `row`: the first that is wanted. What it is made of must be pushed, or `MissingPastError` is raised.
    """

    def __init__(self, clock: RowClock, frames_per_row: int = 1, frame: FrameChoice = "centre", row: int = 0) -> None:
        self.clock = clock
        self.count = frames_per_row
        self._choice: FrameChoice = frame
        # Frames of a stack that come before and after the anchor's.
        before = {"causal": frames_per_row - 1, "centre": frames_per_row // 2, "start": 0}[clock.align]
        self._before = before if frames_per_row > 1 else 0
        self._after = frames_per_row - 1 - self._before
        self._held: deque[tuple[float, Frame]] = deque()
        self._first: float | None = None  # time of the first frame
        self._end = 0.0  # where the newest frame ends
        self._begin = row
        self._rows = row  # the first row whose frames are not known yet
        self._given = row  # the first row that has not been given out
        self._ready: deque[list[Frame | None]] = deque()

    def push(self, frame: Frame, time: float, duration: float) -> list[list[Frame | None]]:
        """The frames of the rows that are ready now; None stands for black."""
        if self._held and not time > self._held[-1][0]:
            raise InputError(f"video frames must come in order of time: {time} s after {self._held[-1][0]} s")
        if self._first is None:
            self._first = time
        self._held.append((time, frame))
        self._end = time + duration
        self._pick(final=False)
        count = 0
        while self._given + count < self._rows and time >= self.clock.complete_at(self._given + count):
            count += 1
        return self._give(count)

    def flush(self) -> list[list[Frame | None]]:
        """End the stream: the frames of the rows whose hop is complete."""
        if self._first is None:
            return []
        total = self.clock.rows(max(self._end, 1e-9))
        while self._rows < total:
            self._pick(final=True)
        return self._give(total - self._given)

    def _give(self, count: int) -> list[list[Frame | None]]:
        self._given += count
        return [self._ready.popleft() for _ in range(count)]

    def _pick(self, final: bool) -> None:
        """Settle the rows whose frames cannot change any more (`final`: the next one, whatever comes)."""
        while True:
            anchor = self.clock.newest_frame(self._rows, self.count > 1, self._choice)
            position = sum(time <= anchor for time, _ in self._held) - 1
            # Frames older than this row needs are of no use to later rows either.
            for _ in range(max(0, position - self._before)):
                self._held.popleft()
                position -= 1
            settled = self._held[-1][0] > anchor and position + self._after < len(self._held)
            if not (settled or final):
                return
            self._ready.append(self._row(position))
            self._rows += 1
            if final:
                return

    def _row(self, position: int) -> list[Frame | None]:
        assert self._first is not None
        if self._begin and position < self._before:
            raise MissingPastError
        if self.clock.align == "causal" and self._first > self.clock.time(self._rows) - self.clock.tolerance:
            return [None] * self.count
        last = len(self._held) - 1
        indexes = range(position - self._before, position + self._after + 1)
        return [self._held[min(max(index, 0), last)][1] for index in indexes]
