"""The streaming part of all audio extractors: samples to frames, frames to windows, windows to rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError, UsageError
from pipelines.features.audio.frame_windows import FrameWindows, FrontEnd, compute_frames
from pipelines.features.audio.mel import Frames, Samples
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.extractor import Rows
from pipelines.features.spec import ExtractorSpec

# A long piece is worked through in blocks, so that memory does not grow with the piece.
BLOCK_SECONDS = 30
BLOCK_ROWS = 32


# What a function of frames keeps from one call to the next of the same stream; empty at its start.
StreamMemory = dict[Any, Any]
# A span of frames (frames, bands), the first frame of each row's window, counted from the start of the stream, and the
# stream's memory, to rows (rows, width). The span begins with the first window and ends with the last.
RowsOf = Callable[[Frames, list[int], StreamMemory], Rows]


@dataclass(frozen=True, eq=False)
class DueRows:
    """The arguments of a `RowsOf`: rows of one stream whose windows are complete."""

    span: Frames
    starts: list[int]
    memory: StreamMemory


@runtime_checkable
class RowsTogether(Protocol):
    """A `RowsOf` that computes rows of several streams in one batch."""

    def __call__(self, span: Frames, starts: list[int], memory: StreamMemory) -> Rows: ...

    def together(self, streams: Sequence[DueRows]) -> list[Rows]:
        """Rows (rows, width) of each stream: those that it would get alone."""


def of_windows(count: int, rows_of: Callable[[NDArray[np.float32]], Rows]) -> RowsOf:
    """For what looks at each window on its own: windows (rows, count, bands) to rows (rows, width)."""

    def rows_of_span(span: Frames, starts: list[int], _: StreamMemory) -> Rows:
        places = [start - starts[0] for start in starts]
        return rows_of(np.stack([span[place : place + count] for place in places]))

    return rows_of_span


class WindowedExtractor:
    """An `AudioExtractor` whose rows are functions of a window of frames.

    `grid` is in frames: windows begin at multiples of it, at or before the place that the clock says. `block_rows` is
    how many rows are computed at a time, at most. `reach`: rows before a row that `rows_of` remembers. `row`: the first
    that is wanted.
    """

    def __init__(
        self,
        spec: ExtractorSpec,
        clock: SampleClock,
        front_end: FrontEnd,
        frames_per_row: int,
        rows_of: RowsOf,
        grid: int = 1,
        block_rows: int = BLOCK_ROWS,
        reach: int = 0,
        row: int = 0,
    ) -> None:
        self.spec = spec
        self.sample_rate = front_end.sample_rate
        self._clock = clock
        self._front_end = front_end
        self._count = frames_per_row
        self._rows_of = rows_of
        self._grid = grid
        self._block_rows = block_rows
        self.reach = reach
        self._memory: StreamMemory = {}
        self._windows = FrameWindows(front_end, self._first_frame(row))
        self._next = row  # the first row that has not been given
        self._arrived = 0  # samples
        self._ended = False

    def fresh(self, row: int = 0) -> WindowedExtractor:
        """The same extractor at the start of another stream, whose rows are wanted from `row` on."""
        return WindowedExtractor(
            self.spec,
            self._clock,
            self._front_end,
            self._count,
            self._rows_of,
            self._grid,
            self._block_rows,
            self.reach,
            row,
        )

    def due(self, row: int) -> int:
        """How many samples must have been pushed before a row is ready."""
        return self._clock.due(row)

    def push(self, samples: Samples) -> Rows:
        """(samples,) float32 to the rows (rows, width) that are complete with them."""
        samples = np.asarray(samples, np.float32)
        parts = [self._none()]
        for begin in range(0, samples.size, self.longest_piece):
            self.accept(samples if samples.ndim != 1 else samples[begin : begin + self.longest_piece])
            parts += rows_together([self])
        return np.concatenate(parts)

    @property
    def longest_piece(self) -> int:
        """Samples that `accept` takes at once, at most."""
        return BLOCK_SECONDS * self.sample_rate

    def accept(self, samples: Samples) -> None:
        """(samples,) float32, as `push`; `rows_together` gives the rows that are complete with them."""
        if self._ended:
            raise UsageError("samples were pushed after the end of the stream: build a new extractor")
        samples = np.asarray(samples, np.float32)
        if samples.ndim != 1:
            raise InputError(f"an audio extractor takes mono samples (samples,), not an array of shape {samples.shape}")
        if not np.isfinite(samples).all():
            raise InputError("the audio has samples that are NaN or infinite: decode it again or repair it first")
        self._hear(samples)

    def skip_to(self, row: int) -> None:
        """Leave out the rows before a row, and their work. It sees the sound before it, and remembers no row."""
        self._next = max(self._next, row)
        self._windows.skip_to(self._first_frame(self._next))
        self._memory.clear()

    def flush(self) -> Rows:
        """End the stream: the rows that wait for samples that will not come, with silence in their place."""
        if self._ended:
            return self._none()
        self._ended = True
        total = self._clock.rows(self._arrived)
        parts = [self._none()]
        while self._next < total:
            self._hear(np.zeros(max(0, self._clock.due(self._next) - self._arrived), np.float32))
            parts += [self._rows_of(due.span, due.starts, due.memory) for due in _due_rows([self], total)[0]]
        return np.concatenate(parts)

    def _hear(self, samples: Samples) -> None:
        self._windows.push(samples)
        self._arrived += len(samples)

    def _complete(self, total: int | None) -> range:
        """Take the rows whose sound is complete, at most `total` in the whole stream."""
        first = self._next
        while self._clock.due(self._next) <= self._arrived and (total is None or self._next < total):
            self._next += 1
        return range(first, self._next)

    def _blocks(self, rows: range) -> list[DueRows]:
        """Rows whose frames are computed, so many together as go through the network at once."""
        if not rows:
            return []
        size = self._block_rows
        blocks = [self._block(row, min(row + size, rows.stop)) for row in rows[::size]]
        self._windows.forget_before(self._first_frame(rows.stop))
        return blocks

    def _block(self, begin: int, end: int) -> DueRows:
        starts = [self._first_frame(row) for row in range(begin, end)]
        span = self._windows.window(starts[0], starts[-1] - starts[0] + self._count)
        return DueRows(span, starts, self._memory)

    def _first_frame(self, row: int) -> int:
        # Rounded down, so that a causal row never sees past its own time.
        return self._clock.begin(row) // (self._front_end.frame_hop * self._grid) * self._grid

    def _none(self) -> Rows:
        return np.zeros((0, self.spec.width), np.float32)


def rows_together(extractors: Sequence[WindowedExtractor]) -> list[Rows]:
    """Rows (rows, width) that are complete in each. Those of one network are computed in one batch where it can."""
    due = _due_rows(extractors)
    rows: list[list[Rows]] = [[] for _ in extractors]
    batch: dict[int, DueRows] = {}  # by place: streams with the network of the first, and a block each
    for place, (extractor, blocks) in enumerate(zip(extractors, due, strict=True)):
        if len(blocks) == 1 and extractor._rows_of is extractors[0]._rows_of:
            batch[place] = blocks[0]
        else:
            rows[place] += [extractor._rows_of(block.span, block.starts, block.memory) for block in blocks]
    network = extractors[0]._rows_of
    if len(batch) > 1 and isinstance(network, RowsTogether):
        for place, values in zip(batch, network.together(list(batch.values())), strict=True):
            rows[place].append(values)
    else:
        for place, block in batch.items():
            rows[place].append(network(block.span, block.starts, block.memory))
    return [
        parts[0] if len(parts) == 1 else np.concatenate([extractor._none(), *parts])
        for extractor, parts in zip(extractors, rows, strict=True)
    ]


def _due_rows(extractors: Sequence[WindowedExtractor], total: int | None = None) -> list[list[DueRows]]:
    """The rows of each that are complete, at most `total` in its whole stream, in blocks, with their frames."""
    complete = [extractor._complete(total) for extractor in extractors]
    compute_frames([extractor._windows for extractor, rows in zip(extractors, complete, strict=True) if rows])
    return [extractor._blocks(rows) for extractor, rows in zip(extractors, complete, strict=True)]
