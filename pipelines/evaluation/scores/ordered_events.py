"""Recordings that run through the classes once, in order: when does each phase begin, and how many are found in time.

The measure is PCE, the percentage of correct events of GolfDB: an event counts when it is found within
max(round((impact − address) / 30), 1) frames. An event is the first row of a phase. It is found by the best path
through a recording's scores that stays in a phase or goes on to the next one: the sum of the logarithms of the
probabilities along it is the largest. Every score is as the model gave it while the recording played; as in GolfDB's
own evaluation, the choice among the rows of a recording is made when it is over. What a stream names while it plays is
measured beside it: the share of right frames, and of recordings whose labels run through all classes, each once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pipelines.errors import InputError
from pipelines.evaluation.scores.predictions import Predictions
from pipelines.metrics.precision import Floats, Integers

# Where the swing is measured: from the first event (address) to the sixth (impact).
FIRST, LAST = 0, 5
FRAMES_PER_TOLERANCE = 30
LEAST = 1e-6  # probability: a class that a model rules out is still better than no path at all


@dataclass(frozen=True)
class EventScore:
    """Shares, not percent."""

    events: tuple[str, ...]  # the phase that begins
    found: tuple[float, ...]  # of each event, over the recordings
    frame_accuracy: float  # of the labels that a stream gives
    row_accuracy: float  # of each row by itself
    in_order: float  # of the recordings: their labels run through all classes, each once
    recordings: int

    @property
    def pce(self) -> float:
        return float(np.mean(self.found))

    def to_dict(self) -> dict[str, Any]:
        return {
            "pce": self.pce,
            "frame_accuracy": self.frame_accuracy,
            "row_accuracy": self.row_accuracy,
            "in_order": self.in_order,
            "recordings": self.recordings,
            "found": dict(zip(self.events, self.found, strict=True)),
        }


def phase_starts(probabilities: Floats) -> Integers:
    """(rows, phases) -> (phases − 1,): the row at which each phase but the first begins, on the best path.

    A recording may end before the last phase: what the path does not reach begins after the last row.
    """
    logarithms = np.log(np.maximum(np.asarray(probabilities, np.float64), LEAST))
    rows, phases = logarithms.shape
    best = np.full(phases, -np.inf)
    best[0] = logarithms[0, 0]
    moved = np.zeros((rows, phases), np.bool_)  # whether the best path into a phase came from the one before
    for row in range(1, rows):
        before = np.concatenate([[-np.inf], best[:-1]])
        moved[row] = before > best
        best = np.maximum(best, before) + logarithms[row]
    starts = np.full(phases - 1, rows)
    phase = int(np.argmax(best))
    for row in range(rows - 1, 0, -1):
        if moved[row, phase]:
            phase -= 1
            starts[phase] = row
    return starts


def runs_in_order(labels: Integers, phases: int) -> bool:
    """(rows,): whether they are every phase once, in order."""
    changes = np.flatnonzero(np.diff(labels)) + 1
    return np.array_equal(labels[[0, *changes]], np.arange(phases))


def score_events(predictions: Predictions, phases: Sequence[str], named: Predictions | None = None) -> EventScore:
    """The events of every recording, found and true; one that its labels do not reach counts as not found.

    named: what a stream would say, where that is something else than each row's best class.
    """
    if len(phases) <= LAST + 1:
        raise InputError(f"events are measured between the phases 2 and {LAST + 2}, and there are {len(phases)}")
    truth = predictions.positives(range(len(phases))).argmax(axis=1)
    bounds = [*predictions.starts(), predictions.frames]
    single = predictions.scores[:, : len(phases)].argmax(axis=1)
    labels = single if named is None else named.scores[:, : len(phases)].argmax(axis=1)
    hits, ordered = [], []
    for begin, end in pairwise(bounds):
        if end == begin:
            continue
        rows = slice(begin, end)
        true = np.searchsorted(truth[rows], np.arange(1, len(phases)))
        span = true[LAST] - true[FIRST]
        tolerance = max(round(span / FRAMES_PER_TOLERANCE), 1)
        reached = true < end - begin
        ordered.append(runs_in_order(labels[rows], len(phases)))
        hits.append(reached & (np.abs(phase_starts(predictions.scores[rows]) - true) <= tolerance))
    return EventScore(
        tuple(phases[1:]),
        tuple(np.mean(hits, axis=0).tolist()),
        frame_accuracy=float(np.mean(labels == truth)),
        row_accuracy=float(np.mean(single == truth)),
        in_order=float(np.mean(ordered)),
        recordings=len(hits),
    )
