"""One class for a clip out of the classes that its rows name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.precision import Floats, Integers


def majority_vote(scores: Floats, clip: Integers, tie_break: Floats) -> NDArray[np.int64]:
    """The class that most rows of a clip name, (clips,).

    scores: (rows, classes); clip: (rows,) index; tie_break: (clips, classes), decides among equally often
    named classes.
    """
    clips, classes = tie_break.shape
    votes = np.zeros((clips, classes), dtype=np.int64)
    np.add.at(votes, (clip, scores.argmax(axis=1)), 1)
    leading = votes == votes.max(axis=1, keepdims=True)
    return np.asarray(np.where(leading, tie_break, -np.inf).argmax(axis=1), dtype=np.int64)
