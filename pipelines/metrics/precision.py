"""Average precision and calibrated average precision, per class, over all frames at once.

Equal scores share one threshold, as in scikit-learn, so the order of the frames cannot change a result. The
official codes of OadTR and LSTR do the same for average precision but rank ties as an unstable sort leaves
them for the calibrated one; the two agree wherever no positive frame has exactly the score of a negative one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError

Floats = NDArray[np.floating[Any]]
Bools = NDArray[np.bool_]
Integers = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class OperatingPoints:
    """One class at each distinct score of its positive frames, highest first; all shapes (thresholds,).

    Thresholds between these change no true positive, so they add nothing to the average precision.
    """

    gains: Integers  # positives whose score is exactly the threshold
    true: Integers  # positives at or above it
    false: Integers  # negatives at or above it
    negatives: int  # negatives in all

    @property
    def positives(self) -> int:
        return int(self.true[-1]) if len(self.true) else 0

    def average_precision(self) -> float:
        """Mean of TP / (TP + FP) over the positives; NaN without positives."""
        return _mean_precision(self.gains, self.true, self.false)

    def calibrated_average_precision(self) -> float:
        """The same of w·TP / (w·TP + FP) with w = negatives / positives; NaN without positives.

        The weight makes classes of different frequency comparable (De Geest et al. 2016): guessing scores
        0.5.
        """
        if self.positives == 0:
            return float("nan")
        if self.negatives == 0:
            return 1.0  # every ranking is perfect; the weight would be zero
        return _mean_precision(self.gains, self.true * (self.negatives / self.positives), self.false)


@dataclass(frozen=True)
class PrecisionScores:
    """Per-class results, shapes (classes,); NaN where a class has no positive frame."""

    ap: NDArray[np.float64]
    cap: NDArray[np.float64]
    positives: NDArray[np.int64]

    @property
    def mean_ap(self) -> float:
        """Mean over the classes that have positives; NaN when none has."""
        return mean_of_present(self.ap)

    @property
    def mean_cap(self) -> float:
        return mean_of_present(self.cap)


def operating_points(positive_scores: Floats, sorted_negative_scores: Floats) -> OperatingPoints:
    """Rank one class: scores (positives,) in any order, scores (negatives,) ascending.

    Only the negatives' values are sorted and the few positives looked up in them, which is several times
    faster than an index sort of everything.
    """
    thresholds, counts = np.unique(positive_scores, return_counts=True)
    below = np.searchsorted(sorted_negative_scores, thresholds, side="left")
    gains = counts[::-1].astype(np.int64)
    return OperatingPoints(
        gains=gains,
        true=np.cumsum(gains),
        false=(len(sorted_negative_scores) - below)[::-1].astype(np.int64),
        negatives=len(sorted_negative_scores),
    )


def precision_scores(scores: Floats, positives: Bools) -> PrecisionScores:
    """AP and calibrated AP of every class. scores, higher is surer, and positives: (frames, classes)."""
    check_scores(scores, positives)
    points = [
        operating_points(column[positive], np.sort(column[~positive]))
        for column, positive in zip(_columns(scores), _columns(positives), strict=True)
    ]
    return PrecisionScores(
        ap=np.array([point.average_precision() for point in points], dtype=np.float64),
        cap=np.array([point.calibrated_average_precision() for point in points], dtype=np.float64),
        positives=np.array([point.positives for point in points], dtype=np.int64),
    )


def average_precision(scores: Floats, positives: Bools) -> NDArray[np.float64]:
    """(frames, classes) scores and truth -> (classes,) AP, NaN for a class without positives."""
    return precision_scores(scores, positives).ap


def calibrated_average_precision(scores: Floats, positives: Bools) -> NDArray[np.float64]:
    """(frames, classes) scores and truth -> (classes,) calibrated AP, NaN for a class without positives."""
    return precision_scores(scores, positives).cap


def mean_of_present(values: Floats) -> float:
    """Mean of the values that are not NaN; NaN when there is none."""
    present = values[~np.isnan(values)]
    return float(present.mean()) if present.size else float("nan")


def check_scores(scores: Floats, positives: Bools) -> None:
    """Raise unless both are (frames, classes), alike, not empty and free of NaN."""
    if scores.ndim != 2 or scores.shape != positives.shape:
        raise InputError(
            f"scores and truth must both be (frames, classes), but are {scores.shape} and {positives.shape}"
        )
    if scores.size == 0:
        raise InputError(f"nothing to score: {scores.shape[0]} frames of {scores.shape[1]} classes")
    check_not_nan(scores, "scores")


def check_not_nan(scores: Floats, what: str) -> None:
    """Raise with the number of frames that hold a NaN and the first of them. scores: (frames, ...)."""
    bad = np.isnan(scores).any(axis=tuple(range(1, scores.ndim)))
    count = int(bad.sum())
    if count == 0:
        return
    share = "every frame" if count == len(scores) else f"{count} of {len(scores)} frames"
    raise InputError(
        f"the {what} hold NaN in {share}, first in row {int(np.argmax(bad))}: "
        "a frame without a score cannot be ranked; look for NaN in the features or the weights"
    )


def _mean_precision(gains: Integers, true: Integers | Floats, false: Integers) -> float:
    if len(gains) == 0:
        return float("nan")
    precision = true / (true + false)
    return float(gains @ precision / gains.sum())


def _columns(array: NDArray[Any]) -> NDArray[Any]:
    """(frames, classes) -> contiguous (classes, frames): one class after the other in memory sorts faster."""
    return np.ascontiguousarray(array.T)
