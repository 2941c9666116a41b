"""The likeliest sequence of labels for the rows of a stream, of which each lasts a least length and any may follow any.

Row by row the best label jumps where two clips meet, and leaving out what is short afterwards cannot tell what was
there instead: three rows of one class and three of another leave nothing. So all sequences whose labels last long
enough are weighed against each other (the algorithm of Viterbi): by the logarithms of the rows' probabilities, and of
that of a change, which is to any of the other labels alike.

What is certain is told at once: as soon as all sequences that may still win agree on a label and its end.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Mark = Sequence[float]  # what the caller knows of the moment before a row; plain numbers


@dataclass(frozen=True)
class Run:
    """A label that is certain, from the mark of its first row to the mark of the row after its last."""

    label: int
    begin: Mark
    end: Mark


@dataclass(eq=False)
class _Run:
    """A label of a sequence that may still win."""

    label: int
    begin: Mark
    before: _Run | None


@dataclass(frozen=True, eq=False)
class _Entry:
    """Labels that began with a row, and may not have lasted long enough yet."""

    scores: Values  # (labels,) of the best sequence up to it, less what the label's rows had in all by then
    best: int  # the label of the best sequence before it, which only the others can follow
    common: _Run | None  # what the others follow; None: the beginning of the stream
    other: _Run | None  # what `best` follows: the second best
    begin: Mark


class LabelPath:
    """The likeliest sequence of labels of one stream."""

    def __init__(self, labels: int, least: int, before: int) -> None:
        """least: rows that a label lasts at least. before: the label that needs no least length at the beginning."""
        self._labels, self._least, self._before = labels, max(1, least), before
        self._change = math.log(max(1, labels - 1))
        self.restart()

    def restart(self) -> None:
        """Before the first row."""
        self._totals = np.zeros(self._labels)  # of the rows' scores so far
        self._scores = np.full(
            self._labels, -np.inf
        )  # of sequences that end in a label which is long enough, less its total
        self._runs: list[_Run | None] = [None] * self._labels
        self._entries: deque[_Entry] = deque()
        self._rows = 0

    def push(self, scores: Values, mark: Mark) -> list[Run]:
        """What is certain with the next row. scores: (labels,) logarithms of its probabilities, finite."""
        self._enter(mark)
        self._totals = self._totals + scores
        self._rows += 1
        if len(self._entries) == self._least:
            self._settle(self._entries.popleft())
        return self._certain()

    def finish(self, mark: Mark, least: int) -> list[Run]:
        """The rest, and start again. mark: after the last row. least: rows that what the end cuts off has at least."""
        ends = [(self._scores[label] + self._totals[label], run) for label, run in enumerate(self._runs) if run]
        for age, entry in zip(count(len(self._entries), -1), self._entries, strict=False):
            if age >= least:
                label = int((entry.scores + self._totals).argmax())
                ends.append((entry.scores[label] + self._totals[label], self._run(entry, label)))
        told: list[Run] = []
        run = max(ends, key=lambda end: end[0])[1] if ends else None
        while run is not None:
            told.append(Run(run.label, run.begin, mark))
            mark, run = run.begin, run.before
        self.restart()
        return told[::-1]

    def _enter(self, mark: Mark) -> None:
        """Any label may begin with the next row."""
        if not self._rows:
            self._scores[self._before], self._runs[self._before] = 0.0, _Run(self._before, mark, None)
            self._entries.append(_Entry(np.zeros(self._labels), self._before, None, None, mark))
            return
        ends = self._scores + self._totals
        best = int(ends.argmax())
        scores = ends[best] - self._change - self._totals
        ends[best] = -np.inf
        second = int(ends.argmax())
        scores[best] = ends[second] - self._change - self._totals[best]
        self._entries.append(_Entry(scores, best, self._runs[best], self._runs[second], mark))

    def _settle(self, entry: _Entry) -> None:
        """What began with an entry is long enough by now."""
        for label in np.flatnonzero(entry.scores > self._scores).tolist():
            self._scores[label], self._runs[label] = entry.scores[label], self._run(entry, label)

    def _run(self, entry: _Entry, label: int) -> _Run:
        return _Run(label, entry.begin, entry.other if label == entry.best else entry.common)

    def _certain(self) -> list[Run]:
        """Runs with which all sequences begin, and go on in the same way."""
        told: list[Run] = []
        if self._entries and self._entries[0].common is None:
            return told
        live = {*self._runs, *(run for entry in self._entries for run in (entry.common, entry.other))} - {None}
        while (second := _common_second(live)) is not None and second.before is not None:
            told.append(Run(second.before.label, second.before.begin, second.begin))
            second.before = None
        return told

    # ---- snapshots ---------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Plain JSON values."""
        numbers: dict[_Run, int] = {}
        runs: list[list[Any]] = []

        def number(run: _Run | None) -> int | None:
            if run is None:
                return None
            if run not in numbers:
                before = number(run.before)
                numbers[run] = len(runs)
                runs.append([run.label, list(run.begin), before])
            return numbers[run]

        tips = [number(run) for run in self._runs]
        entries = [
            [_plain(entry.scores), entry.best, number(entry.common), number(entry.other), list(entry.begin)]
            for entry in self._entries
        ]
        return {
            "rows": self._rows,
            "totals": self._totals.tolist(),
            "scores": _plain(self._scores),
            "tips": tips,
            "entries": entries,
            "runs": runs,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """What `state` gave."""
        runs: list[_Run] = []
        for label, begin, before in state["runs"]:
            runs.append(_Run(label, begin, None if before is None else runs[before]))

        def of(number: int | None) -> _Run | None:
            return None if number is None else runs[number]

        self._rows, self._totals, self._scores = state["rows"], np.array(state["totals"]), _values(state["scores"])
        self._runs = [of(number) for number in state["tips"]]
        self._entries = deque(
            _Entry(_values(scores), best, of(common), of(other), begin)
            for scores, best, common, other, begin in state["entries"]
        )


def _common_second(live: Iterable[_Run | None]) -> _Run | None:
    """The second run of all sequences; None where one is in its first still, or they differ."""
    found: _Run | None = None
    for run in live:
        second, first = None, run
        while first is not None and first.before is not None:
            second, first = first, first.before
        if second is None or (found is not None and second is not found):
            return None
        found = second
    return found


def _plain(values: Values) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _values(plain: Sequence[float | None]) -> Values:
    return np.array([-np.inf if value is None else value for value in plain])
