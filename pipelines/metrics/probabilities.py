"""What a model's raw scores mean: the one way from logits to probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

# softmax: one class at a time. sigmoid: each class by itself, as a model with a binary loss was trained.
ScoreKind = Literal["softmax", "sigmoid"]
SCORE_KINDS: tuple[ScoreKind, ...] = get_args(ScoreKind)

LONGEST_SMOOTHING = 86_400.0  # seconds, of what a file of a model may ask for


def smoothing_of(value: object) -> float:
    """Seconds over which a model's file says that its probabilities are averaged; ValueError where it is no time."""
    return _seconds_of(value, "its outputs cannot be smoothed over {} s")


def least_of(value: object) -> float:
    """Seconds below which a model's file says that a stretch is left out; ValueError where it is no time."""
    return _seconds_of(value, "its stretches cannot be {} s long at least")


def _seconds_of(value: object, refusal: str) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= LONGEST_SMOOTHING:
        raise ValueError(refusal.format(f"{value:g}" if isinstance(value, float) else value))
    return float(value)


def probabilities(logits: NDArray[np.floating], kind: ScoreKind, left_out: Sequence[int] = ()) -> NDArray[np.float64]:
    """Logits (…, classes) as probabilities (…, classes).

    left_out: classes that the loss leaves out. A softmax gives them 0, as in OadTR: they have no trained logit, and
    must take nothing from the others.
    """
    values = logits.astype(np.float64)
    if kind == "sigmoid":
        return np.asarray(np.exp(-np.logaddexp(0.0, -values)))
    if left_out:
        values[..., list(left_out)] = -np.inf
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
