"""Rows whose windows lie on one grid of eight frames: steps since the row before, of many streams at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.features.audio.mel import Frames
from pipelines.features.audio.speech.floors import clipped, floors_of, forget_others, runs_of_one_floor
from pipelines.features.audio.speech.network import FRAMES
from pipelines.features.audio.speech.steps import LEAD, STEP, State, Steps, first_state, joined, of_stream
from pipelines.features.audio.windowed import DueRows, StreamMemory
from pipelines.features.extractor import Rows


def on_one_grid(hop: float) -> bool:
    """Whether windows that begin `hop` frames apart overlap and share everything."""
    whole = round(hop)
    return abs(hop - whole) < 1e-6 and whole % STEP == 0 and whole < FRAMES


@dataclass(frozen=True, eq=False)
class Reached:
    """How far the layers have come in frames of one floor."""

    frame: int  # the next that they have not seen
    state: State


@dataclass(frozen=True, eq=False)
class Piece:
    """Steps that are due in one stream."""

    frames: Frames  # (8 · steps, 32)
    state: State
    end: int  # the frame behind the last
    rows: list[int]  # steps that end a window which is wanted


class GridRows:
    """A `RowsOf` with steps of several streams in one batch."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def __call__(self, span: Frames, starts: list[int], memory: StreamMemory) -> Rows:
        rows = []
        for floor, run in runs_of_one_floor(span, starts):
            piece = _piece(clipped(span, starts, floor, run), run, memory.get(floor))
            values, state = self._steps(piece.frames[None], piece.state)
            memory[floor] = Reached(piece.end, state)
            forget_others(memory, floor)
            rows.append(values[0, piece.rows])
        return np.concatenate(rows)

    def together(self, streams: Sequence[DueRows]) -> list[Rows]:
        """Streams whose windows have one floor go through the layers together, with others of as many steps."""
        results: dict[int, Rows] = {}
        batches: dict[int, list[tuple[int, float | None, Piece]]] = defaultdict(list)  # by frames
        for number, (due, runs) in enumerate(zip(streams, _runs(streams), strict=True)):
            if len(runs) > 1:
                results[number] = self(due.span, due.starts, due.memory)
                continue
            ((floor, run),) = runs
            piece = _piece(clipped(due.span, due.starts, floor, run), run, due.memory.get(floor))
            batches[len(piece.frames)].append((number, floor, piece))
        for batch in batches.values():
            frames = np.stack([piece.frames for _, _, piece in batch])
            values, state = self._steps(frames, joined([piece.state for _, _, piece in batch]))
            for place, (number, floor, piece) in enumerate(batch):
                memory = streams[number].memory
                memory[floor] = Reached(piece.end, of_stream(state, place))
                forget_others(memory, floor)
                results[number] = values[place, piece.rows]
        return [results[number] for number in range(len(streams))]


def _runs(streams: Sequence[DueRows]) -> list[list[tuple[float | None, list[int]]]]:
    """`runs_of_one_floor` of each stream."""
    single = [due for due in streams if len(due.starts) == 1]  # nearly all, in real time
    floors = iter(floors_of(np.stack([due.span for due in single])) if single else [])
    return [
        [(next(floors), due.starts)] if len(due.starts) == 1 else list(runs_of_one_floor(due.span, due.starts))
        for due in streams
    ]


def _piece(frames: Frames, run: list[int], reached: Reached | None) -> Piece:
    """The steps from what is known to the last window of a run, whose first frame is frames[0]."""
    end = run[-1] + FRAMES
    first = run[0] + FRAMES - STEP  # of the step that ends the first window
    if reached is not None and run[0] <= reached.frame <= first and (first - reached.frame) % STEP == 0:
        begin, state = reached.frame, reached.state
        new = frames[begin - run[0] :]
    else:
        begin, state = run[0] - LEAD, first_state()
        new = np.concatenate([np.zeros((LEAD, frames.shape[1]), np.float32), frames])
    return Piece(new, state, end, [(start + FRAMES - begin) // STEP - 1 for start in run])
