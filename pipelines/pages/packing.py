"""Numbers of a page, packed: bytes, deflated, as base64. The other side is assets/packed.js and assets/scores.js."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FULL_SCORE = 255
SLACK = 1e-4  # share of a hop: rows whose times differ by less from a regular step are one run


def base64_text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def deflated(values: NDArray[np.uint8]) -> str:
    return base64_text(zlib.compress(np.ascontiguousarray(values).tobytes(), 9))


def as_bytes(scores: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Scores from 0 to 1 as 0 to 255, of any shape; NaN is 0."""
    whole: NDArray[np.uint8] = np.rint(np.clip(np.nan_to_num(scores), 0.0, 1.0) * FULL_SCORE).astype(np.uint8)
    return whole


def packed_rows(begins: Sequence[float], hop: float, scores: NDArray[np.uint8]) -> dict[str, Any]:
    """Rows as a page takes them: runs of regular times, and the scores class by class.

    begins: seconds, (rows,), increasing; hop: seconds that a row covers; scores: (rows, classes).
    """
    return {"hop": hop, "runs": regular_runs(begins, hop), "packed": deflated(scores.T) if scores.size else ""}


def regular_runs(begins: Sequence[float], hop: float) -> list[tuple[float, int]]:
    """Begin and number of rows of each stretch in which every row begins where the one before ends."""
    if not len(begins):
        return []
    times = np.asarray(begins, np.float64)
    first = 0
    runs = []
    # A run is measured from its beginning: small errors of single steps do not add up.
    steps = np.flatnonzero(np.abs(np.diff(times) - hop) > SLACK * hop) + 1
    for end in [*steps.tolist(), len(times)]:
        runs.append((round(float(times[first]), 6), int(end - first)))
        first = end
    return runs
