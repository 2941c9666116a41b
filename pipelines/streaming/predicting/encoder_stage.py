"""The model's stage: one step for all sources that have a row, or a chunk of each that has one, as long as any has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, zip_longest
from operator import not_
from queue import Queue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import NonFiniteInputError
from pipelines.streaming.messages import Ended, Place, Row
from pipelines.streaming.output.summary import Statistics
from pipelines.streaming.playing.inbox import Inbox
from pipelines.streaming.predicting.session import StreamSession


@dataclass(frozen=True, eq=False)
class Result:
    """What the model gave for a row."""

    row: Row
    scores: NDArray[np.float32]  # (classes,)
    seen: int  # rows since the window started, this one included
    late: bool = False  # nothing came any more: the row is one that would have followed


@dataclass(frozen=True, eq=False)
class Mark:
    """A snapshot is due; everything before it in the queue belongs to it."""

    state: Any  # of the session's engine
    recent: dict[int, list[NDArray[np.float32]]]  # by source: rows that the last answers of a lagging model depend on
    places: dict[int, Place]  # by source
    slots: dict[int, int]  # sources that are playing, with their rows of the state
    over: frozenset[int]
    newest: dict[int, list[float]]  # by source: index, time, begin and end of its last row


# Everything that one step gave, or a snapshot, or None: nothing more comes.
Message = list[Result | Ended] | Mark | None

# A chunk goes on for so many rows or seconds of media, whichever is less: predictions come more seldom, but still come.
MOST_ROWS, LONGEST_CHUNK = 256, 10.0


class EncoderStage:
    """Takes rows, gives results."""

    def __init__(
        self,
        session: StreamSession,
        inbox: Inbox,
        output: Queue[Message],
        statistics: Statistics,
        on_broken: Callable[[Row, bool], None],
        every: float | None,
        chunks: bool,
    ) -> None:
        """on_broken: told of rows that are left out, and whether the row itself was finite and its scores were not.

        every: seconds between snapshots; None: none are wanted. chunks: wait for many rows and take them at once.
        """
        self.session = session
        self.places: dict[int, Place] = {}
        self.slots: dict[int, int] = {}
        self.over: set[int] = set()
        self._inbox, self._output, self._statistics = inbox, output, statistics
        self._on_broken, self._every = on_broken, every
        self._chunks = chunks and session.model.takes_chunks
        self._saved = time.monotonic()
        self._newest: dict[int, Row] = {}  # by source
        self._restarted: set[int] = set()  # sources whose window has started, and of which no result has said so yet

    def goes_on(self, source: int, slot: int, place: Place, newest: Sequence[float]) -> None:
        """Where a source of a snapshot stands. newest: as in `Mark`; empty: not known."""
        self.slots[source], self.places[source] = slot, place
        if newest:
            index, moment, begin, end = newest
            now = time.monotonic()
            values = np.zeros(0, np.float32)  # which the session has
            self._newest[source] = Row(
                source, int(index), place, moment, begin, end, values, now, 0.0, now, False, None
            )

    def run(self) -> None:
        """Until all sources are over or the stream is stopped."""
        advance = self._take_chunks if self._chunks else self._take_step
        while (results := advance()) is not None:
            self._output.put(results)
            if self._every is not None and time.monotonic() - self._saved >= self._every:
                self._mark()
        if self._every is not None:
            self._mark()

    def _take_step(self) -> list[Result | Ended] | None:
        """One row of every source that has one; None: nothing more comes."""
        items = self._inbox.take()
        if not items:
            return None
        rows = {slot: item for slot, item in items if isinstance(item, Row)}
        results: list[Result | Ended] = []
        if rows:
            results += self._step(rows)
        for slot, item in items:
            if isinstance(item, Ended):
                results += self._end(slot, item)
        return results

    def _take_chunks(self) -> list[Result | Ended] | None:
        """A chunk of every source that has one; None: nothing more comes."""
        runs = self._inbox.take_runs(self._chunk_rows)
        if not runs:
            return None
        parts = [self._end(slot, run) if isinstance(run, Ended) else self._chunk(slot, run) for slot, run in runs]
        # As one step after the other would give them: sources that play side by side take turns.
        return [result for result in chain.from_iterable(zip_longest(*parts)) if result is not None]

    def _chunk_rows(self, slot: int, first: Row) -> int:
        """How many rows the next chunk has. The first ones are short, so that predictions come soon.

        Chunks end at fixed places of a stream, whatever the pace and wherever it was resumed: the last bit of a score
        may depend on what is computed together.
        """
        seen = 0 if first.restart else self.session.seen(slot)
        most = min(MOST_ROWS, max(1, int(LONGEST_CHUNK / (first.end - first.begin))))
        return min(max(1, seen), most - seen) if seen < most else most - seen % most

    def _chunk(self, slot: int, rows: list[Row]) -> list[Result | Ended]:
        session, statistics = self.session, self._statistics
        owed = self._restart(slot, rows[0]) if rows[0].restart and session.seen(slot) else []
        values = np.stack([row.values for row in rows])
        usable = _finite(values)
        if not all(usable):
            for row in compress(rows, map(not_, usable)):
                self._on_broken(row, False)
            rows, values = list(compress(rows, usable)), values[usable]
        if not rows:
            return [*owed]
        begin = time.monotonic()
        scores, seen = session.steps(slot, values)
        statistics.took("encoder", (time.monotonic() - begin) / len(rows), len(rows))
        statistics.stepped()
        statistics.took_each("features", (row.feature_seconds for row in rows))
        statistics.took_each("wait", (begin - row.queued for row in rows))
        self.places[rows[-1].source] = rows[-1].place
        self.slots[rows[-1].source] = slot
        self._newest[rows[-1].source] = rows[-1]
        return [*owed, *self._usable(rows, scores, seen)]

    def _end(self, slot: int, ended: Ended) -> list[Result | Ended]:
        """What is still to be said of a source that is over."""
        late = self._late(slot, ended.source)
        self.over.add(ended.source)
        self.slots.pop(ended.source, None)
        return [*late, ended]

    def _step(self, rows: dict[int, Row]) -> list[Result]:
        session, statistics = self.session, self._statistics
        restarting = {slot: row for slot, row in rows.items() if row.restart and session.seen(slot)}
        owed = [result for slot, row in restarting.items() for result in self._restart(slot, row)]
        begin = time.monotonic()
        try:
            scores = session.step({slot: row.values for slot, row in rows.items()})
        except NonFiniteInputError as error:
            for slot in error.rows:
                self._on_broken(rows.pop(slot), False)
            return owed + (self._step(rows) if rows else [])
        seconds = time.monotonic() - begin
        statistics.took("encoder", seconds)
        statistics.stepped()
        statistics.took_each("features", (row.feature_seconds for row in rows.values()))
        statistics.took_each("wait", (begin - row.queued for row in rows.values()))
        for slot, row in rows.items():
            self.places[row.source] = row.place
            self.slots[row.source] = slot
            self._newest[row.source] = row
        answers = np.stack([scores[slot] for slot in rows])
        return owed + self._usable(list(rows.values()), answers, map(session.seen, rows))

    def _restart(self, slot: int, row: Row) -> list[Result]:
        """Let a window begin again with a row; what is owed to the rows before it, of a source that goes on.

        They count as the last of these: the numbers after it belong to the rows that follow.
        """
        newest = self._newest.get(row.source)
        owed = (
            [replace(result, row=replace(result.row, index=newest.index)) for result in self._late(slot, row.source)]
            if newest
            else []
        )
        self.session.restart([slot])
        return owed

    def _usable(self, rows: Sequence[Row], scores: NDArray[np.float32], seen: Iterable[int]) -> list[Result]:
        """The results of rows (rows, classes) whose scores are finite.

        The first of them after its window has started says so, whatever became of the row that it started with.
        """
        results = []
        for row, values, number, finite in zip(rows, scores, seen, _finite(scores), strict=True):
            if number == 1:
                self._restarted.add(row.source)
            if not finite:
                self._on_broken(row, True)
                continue
            if row.source in self._restarted:
                self._restarted.remove(row.source)
                row = replace(row, restart=True)
            results.append(Result(row, values, number))
        return results

    def _late(self, slot: int, source: int) -> list[Result]:
        """The answers that a model with a lag still owes to a source that is over, in rows that would have followed."""
        newest = self._newest.pop(source, None)
        if newest is None:
            return []
        scores = self.session.late(slot)
        # Of a source that was shorter than the lag, the first answers are further away.
        first = 1 + self.session.model.config.lag - len(scores)
        seen = self.session.seen(slot)
        return [
            Result(_following(newest, steps), values, seen, late=True)
            for steps, values in enumerate(scores, first)
            if np.isfinite(values).all()
        ]

    def _mark(self) -> None:
        self._saved = time.monotonic()
        recent = {source: self.session.recent(slot) for source, slot in self.slots.items()}
        newest = {number: [row.index, row.time, row.begin, row.end] for number, row in self._newest.items()}
        self._output.put(
            Mark(self.session.snapshot(), recent, dict(self.places), dict(self.slots), frozenset(self.over), newest)
        )


def _finite(values: NDArray[np.float32]) -> list[bool]:
    """Which rows of (rows, width) hold neither NaN nor infinity."""
    return [bool(finite) for finite in np.atleast_1d(np.isfinite(values).all(axis=1))]


def _following(row: Row, steps: int) -> Row:
    """The row that would have come `steps` after `row`: its answer is there when `row` is, not after the end."""
    seconds = steps * (row.end - row.begin)
    return replace(
        row,
        index=row.index + steps,
        begin=row.begin + seconds,
        end=row.end + seconds,
        restart=False,
    )
