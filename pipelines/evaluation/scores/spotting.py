"""Spotting: which events a stream of predictions finds, how soon, and how often it hears what is not there.

A spot is a stretch of rows in a class other than the background whose best row is certain enough. It is at least
`LEAST_ROWS` long, and no shorter than what the model's stream would tell of. An event is found by a spot of its class
that begins while it lasts, or overlaps it. Spots that overlap no event of their class are false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.scores.predictions import Predictions

LEAST_ROWS = 2  # a single row is a flicker
ROW_SLACK = 1e-6  # of a row: seconds are rounded
THRESHOLD = 0.5  # probability of a spot's best row


@dataclass(frozen=True)
class Spot:
    """Rows `begin` to `end` of one recording, in one class."""

    label: int
    begin: int
    end: int


@dataclass(frozen=True)
class Spotting:
    """What was spotted in recordings whose events are known; none at all where there is only other sound."""

    events: int
    found: int
    false_alarms: dict[str, int]  # by class
    hours: float
    delay: float | None  # mean seconds from the end of an event to the answer; below 0: before it was over

    @property
    def recall(self) -> float | None:
        """Share of the events that were found."""
        return self.found / self.events if self.events else None

    @property
    def alarms_per_hour(self) -> float:
        return sum(self.false_alarms.values()) / max(self.hours, 1e-9)


def rows_of_a_spot(least: float, hop: float) -> int:
    """Rows that a spot has at least. least: seconds below which a model's stream leaves a stretch out."""
    return max(LEAST_ROWS, math.ceil(least / hop - ROW_SLACK))


def spots(
    scores: NDArray[np.floating], background: int, threshold: float = THRESHOLD, rows: int = LEAST_ROWS
) -> list[Spot]:
    """Spots in the probabilities (rows, classes) of one recording, of so many rows or more."""
    best = scores.argmax(axis=1)
    return [
        spot
        for spot in _stretches(best, background)
        if spot.end - spot.begin >= rows and scores[spot.begin : spot.end, spot.label].max() >= threshold
    ]


def score_spotting(
    predictions: Predictions,
    class_names: Sequence[str],
    background: int,
    hop: float,
    lag: int,
    threshold: float = THRESHOLD,
    least: float = 0.0,
) -> Spotting:
    """hop: seconds between rows; lag: rows by which answers come later than the row that they are about.

    least: seconds below which a stretch is no spot.
    """
    rows = rows_of_a_spot(least, hop)
    truth = predictions.label if predictions.label.ndim == 1 else predictions.label.argmax(axis=1)
    events = hits = 0
    alarms = dict.fromkeys((name for number, name in enumerate(class_names) if number != background), 0)
    delays: list[float] = []
    edges = [*predictions.starts().tolist(), predictions.frames]
    for begin, end in pairwise(edges):
        heard = spots(predictions.scores[begin:end], background, threshold, rows)
        said = list(_stretches(truth[begin:end], background))
        for event in said:
            answers = [spot for spot in heard if _meets(spot, event)]
            events += 1
            if answers:
                hits += 1
                # Known once the spot is long enough.
                known = max(answers[0].begin, event.begin) + rows + lag
                delays.append((known - event.end) * hop)
        for spot in heard:
            if not any(_meets(spot, event) for event in said):
                alarms[class_names[spot.label]] += 1
    hours = predictions.frames * hop / 3600
    return Spotting(events, hits, alarms, hours, float(np.mean(delays)) if delays else None)


def _meets(spot: Spot, event: Spot) -> bool:
    return spot.label == event.label and spot.begin < event.end and event.begin < spot.end


def _stretches(labels: NDArray[np.integer], background: int) -> Iterator[Spot]:
    """Stretches of one class, but for the background."""
    begin = 0
    for label, rows in groupby(labels.tolist()):
        end = begin + len(list(rows))
        if label != background:
            yield Spot(int(label), begin, end)
        begin = end
