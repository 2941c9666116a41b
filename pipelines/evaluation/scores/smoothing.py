"""Temporal smoothing of scores, as the THUMOS14 scripts offer it: the maximum of five neighbouring frames."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from pipelines.errors import UsageError
from pipelines.metrics.precision import Floats, Integers
from pipelines.untrusted.parsing import choice_of

# video: neighbours within the recording. pooled: over all frames in a row, as the official scripts do, so
# that the ends of two recordings that happen to follow each other mix.
Smoothing = Literal["off", "video", "pooled"]
SMOOTHINGS: tuple[Smoothing, ...] = get_args(Smoothing)

REACH = 2  # frames to either side


def as_smoothing(name: str) -> Smoothing:
    """A kind of smoothing by its name."""
    try:
        return choice_of(name, SMOOTHINGS)
    except ValueError:
        raise UsageError(f"unknown smoothing '{name}': choose from {', '.join(SMOOTHINGS)}") from None


def smooth_scores(scores: Floats, video: Integers, smoothing: Smoothing) -> Floats:
    """Scores (frames, classes) -> the same shape; video: (frames,), constant over each recording."""
    if smoothing == "off":
        return scores
    smoothed = scores.copy()
    for shift in range(1, REACH + 1):
        near = np.ones(max(len(scores) - shift, 0), dtype=np.bool_)
        if smoothing == "video":
            near = video[shift:] == video[:-shift]
        later, earlier = smoothed[shift:], smoothed[:-shift]
        np.maximum(later, scores[:-shift], out=later, where=near[:, None])
        np.maximum(earlier, scores[shift:], out=earlier, where=near[:, None])
    return smoothed
