"""Confidence intervals: Wilson's for accuracy, and for average precision by drawing recordings with replacement, since
frames of one recording are not independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError
from pipelines.metrics.precision import Bools, Floats, Integers, check_scores, mean_of_present

LEVEL = 0.95
NORMAL_QUANTILE = 1.959963984540054  # of (1 + LEVEL) / 2
_CHUNK = 1 << 21  # numbers per intermediate array: 16 MB
_TINY = 1e-300


@dataclass(frozen=True)
class Interval:
    """Bounds of a score."""

    low: float
    high: float
    level: float
    replicates: int  # of a bootstrap; 0: by a formula


@dataclass(frozen=True)
class _Ranking:
    """One class, its frames cut into pieces at each distinct score of a positive, highest first.

    The ends of the pieces are where precision is read off; frames after the last one count only as negatives.
    """

    pieces: int
    piece: Integers  # (frames,) number of the piece that a frame is in; `pieces` when it is after the last
    unit: Integers  # (frames,) the recording that it is of
    positive: Bools  # (frames,)
    positives: NDArray[np.int64]  # (recordings,) positive frames of each
    negatives: NDArray[np.int64]  # (recordings,)


def draw(units: int, replicates: int, seed: int) -> NDArray[np.int64]:
    """How often each of `units` recordings is drawn, (replicates, units)."""
    if units < 1 or replicates < 1:
        raise ConfigurationError(f"a bootstrap needs recordings and replicates, not {units} and {replicates}")
    generator = np.random.default_rng(seed)
    return generator.multinomial(units, np.full(units, 1.0 / units), size=replicates)


def accuracy_interval(correct: Bools) -> Interval:
    """Wilson's score interval of a share of right answers, (recordings,): it holds at 0 % and 100 % and for few too."""
    count, right = len(correct), int(correct.sum())
    if not count:
        raise ConfigurationError("an interval needs recordings, not none")
    share, z2 = right / count, NORMAL_QUANTILE**2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = NORMAL_QUANTILE / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    # Rounding must not push the bounds over the ends.
    return Interval(max(0.0, middle - half), min(1.0, middle + half), LEVEL, replicates=0)


def precision_intervals(
    scores: Floats, positives: Bools, video: Integers, replicates: int, seed: int = 0
) -> tuple[Interval, Interval]:
    """Intervals of mAP and mcAP. scores, positives: (frames, classes); video: (frames,).

    Frames are sorted once; a replicate only weighs them. A class that a replicate has no positive of is left
    out of that replicate's mean, as in the score itself.
    """
    check_scores(scores, positives)
    _, unit = np.unique(video, return_inverse=True)
    units = int(unit.max()) + 1
    weights = draw(units, replicates, seed)
    ap = np.full((replicates, scores.shape[1]), np.nan)
    cap = np.full((replicates, scores.shape[1]), np.nan)
    for column in range(scores.shape[1]):
        if positives[:, column].any():
            ranking = _rank(scores[:, column], positives[:, column], unit, units)
            ap[:, column], cap[:, column] = _weighted(ranking, weights.T.astype(np.float64))
    return (
        _percentiles(np.array([mean_of_present(row) for row in ap])),
        _percentiles(np.array([mean_of_present(row) for row in cap])),
    )


def _rank(scores: Floats, positive: Bools, unit: Integers, units: int) -> _Ranking:
    scores = np.ascontiguousarray(scores)
    thresholds = np.unique(scores[positive])
    return _Ranking(
        pieces=len(thresholds),
        piece=len(thresholds) - np.searchsorted(thresholds, scores, side="right"),
        unit=unit,
        positive=positive,
        positives=np.bincount(unit[positive], minlength=units),
        negatives=np.bincount(unit[~positive], minlength=units),
    )


def _weighted(ranking: _Ranking, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """AP and calibrated AP, (replicates,), when recording i counts weights[i] (replicates,) times.

    Frames are counted per piece and recording; the counts of all replicates are then one matrix product.
    """
    units, replicates = weights.shape
    total = ranking.positives @ weights
    # The weight of a class, negatives / positives; without negatives any value does, since precision is 1.
    lift = np.divide(ranking.negatives @ weights, total, out=np.ones(replicates), where=total > 0)
    lift[lift == 0] = 1.0
    # Whole numbers below 2^24 are exact in float32, and their products take half the time.
    exact = (ranking.positives + ranking.negatives) @ weights < 1 << 24
    weights = weights.astype(np.float32 if exact.all() else np.float64)
    true = np.zeros(replicates)
    both = np.zeros(replicates)
    ap = np.zeros(replicates)
    cap = np.zeros(replicates)
    rows = max(1, _CHUNK // max(units, replicates))
    for begin in range(0, ranking.pieces, rows):
        stop = min(begin + rows, ranking.pieces)
        inside = (ranking.piece >= begin) & (ranking.piece < stop)
        hits = inside & ranking.positive
        gains = _counts(ranking.piece[hits] - begin, ranking.unit[hits], stop - begin, weights)
        frames = _counts(ranking.piece[inside] - begin, ranking.unit[inside], stop - begin, weights)
        running_true = true + np.cumsum(gains, axis=0)
        running_both = both + np.cumsum(frames, axis=0)
        true, both = running_true[-1], running_both[-1]
        # 0/0 only where nothing was drawn so far, and there the gain is zero too.
        ap += (gains * running_true / np.maximum(running_both, 1)).sum(axis=0)
        lifted = running_true * lift
        cap += (gains * lifted / np.maximum(lifted + running_both - running_true, _TINY)).sum(axis=0)
    drawn = np.where(total > 0, total, np.nan)
    return ap / drawn, cap / drawn


def _counts(piece: Integers, unit: Integers, pieces: int, weights: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Drawn frames in each piece, (pieces, replicates), from the piece and recording of each frame."""
    units = len(weights)
    frames = np.bincount(piece * units + unit, minlength=pieces * units).reshape(pieces, units)
    return np.asarray(frames.astype(weights.dtype) @ weights, dtype=np.float64)


def _percentiles(values: NDArray[np.float64]) -> Interval:
    tail = (1.0 - LEVEL) / 2.0 * 100.0
    low, high = np.nanpercentile(values, [tail, 100.0 - tail])
    return Interval(low=float(low), high=float(high), level=LEVEL, replicates=len(values))
