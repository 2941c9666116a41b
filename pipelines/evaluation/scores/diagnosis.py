"""What a detector is like to live with: how soon it names an action, how many it misses, how often it cries wolf.

Each class gets the lowest threshold at which its frames are named with the wanted precision, so that models are
compared at the same trust. An action is a run of positive frames within one video; it is found at its first frame at
or above the threshold. A false alarm is a run of frames at or above the threshold in which the action never happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError, UsageError
from pipelines.metrics.precision import Bools, Floats, Integers

SECONDS_PER_HOUR = 3600
DEFAULT_PRECISION = 0.8


@dataclass(frozen=True)
class DiagnosisOptions:
    """At which precision, and how long a frame lasts."""

    precision: float = DEFAULT_PRECISION
    hop: float | None = None  # seconds from frame to frame

    def __post_init__(self) -> None:
        if not 0.0 < self.precision <= 1.0:
            raise ConfigurationError(
                f"the precision of a diagnosis must be above 0 and at most 1, not {self.precision}"
            )

    @property
    def seconds_per_frame(self) -> float:
        if self.hop is None:
            raise UsageError("--detail counts seconds, and nothing says how long a frame lasts: give --hop")
        return self.hop


@dataclass(frozen=True)
class ClassDiagnosis:
    """One class at its threshold."""

    name: str
    threshold: float | None  # None: the wanted precision is not reached anywhere
    actions: int
    found: int
    delay: float | None  # seconds from an action's beginning until it is named, mean over those found
    false_alarms: float  # per hour


@dataclass(frozen=True)
class Diagnosis:
    """All scored classes."""

    precision: float
    hours: float
    classes: tuple[ClassDiagnosis, ...]

    @property
    def total(self) -> ClassDiagnosis:
        """All actions together; false alarms of all classes add up."""
        timed = [row for row in self.classes if row.delay is not None]
        count = sum(row.found for row in timed)
        delays = sum(row.found * row.delay for row in timed if row.delay is not None)
        return ClassDiagnosis(
            "all",
            None,
            sum(row.actions for row in self.classes),
            count,
            delays / count if count else None,
            sum(row.false_alarms for row in self.classes),
        )


def diagnose(
    scores: Floats, positives: Bools, video: Integers, classes: Sequence[str], options: DiagnosisOptions
) -> Diagnosis:
    """scores, positives: (frames, classes); video: (frames,), the frames of one video together, in order of time."""
    hop = options.seconds_per_frame
    hours = len(scores) * hop / SECONDS_PER_HOUR
    results = []
    for column, name in enumerate(classes):
        values, positive = np.ascontiguousarray(scores[:, column]), np.ascontiguousarray(positives[:, column])
        threshold = threshold_at_precision(values, positive, options.precision)
        first, last = runs(positive, video)
        if threshold is None:
            results.append(ClassDiagnosis(name, None, len(first), 0, None, 0.0))
            continue
        named = values >= threshold
        delays = _delays(named, first, last)
        begin, end = runs(named, video)
        alarms = sum(not positive[a : b + 1].any() for a, b in zip(begin, end, strict=True))
        delay = float(np.mean(delays)) * hop if len(delays) else None
        results.append(ClassDiagnosis(name, threshold, len(first), len(delays), delay, alarms / hours))
    return Diagnosis(options.precision, hours, tuple(results))


def threshold_at_precision(scores: Floats, positive: Bools, precision: float) -> float | None:
    """The lowest threshold at which at least that share of the frames (frames,) at or above it is positive."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    right = np.cumsum(positive[order])
    share = right / np.arange(1, len(order) + 1)
    # Equal scores share one threshold: only the last frame of each counts.
    closes = np.append(ranked[1:] != ranked[:-1], True)
    good = np.flatnonzero(closes & (share >= precision))
    return float(ranked[good[-1]]) if len(good) else None


def runs(frames: Bools, video: Integers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last frame of each run of True within one video, both (runs,)."""
    joined = np.zeros(len(frames) + 1, dtype=np.bool_)  # joined[i]: frames i − 1 and i are of the same run
    joined[1:-1] = frames[1:] & frames[:-1] & (video[1:] == video[:-1])
    return np.flatnonzero(frames & ~joined[:-1]), np.flatnonzero(frames & ~joined[1:])


def _delays(named: Bools, first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Frames until each found action is named, (found,)."""
    places = np.flatnonzero(named)
    next_place = np.searchsorted(places, first)
    reached = np.append(places, len(named))[next_place]
    return np.asarray((reached - first)[reached <= last], dtype=np.int64)
