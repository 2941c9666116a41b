"""How far a clip model's answers can be believed: calibration, and what its rule for "none of these" does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.probabilities import ScoreKind, probabilities
from pipelines.metrics.rejection import Rejection, calibration_error
from pipelines.wording import counted


@dataclass(frozen=True)
class Honesty:
    """Of the answers at the last tokens of clips; shares from 0 to 1."""

    calibration_error: float  # expected calibration error of the answers' probabilities
    none: float | None = None  # share of the clips that get the answer "none"; None: the model has no rule for it
    accuracy: float | None = None  # of the clips, where "none" is a wrong answer
    foreign: int = 0  # recordings of no class
    foreign_none: float | None = None  # share of them that get the answer "none"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def headline(self) -> str:
        """In one line."""
        parts = [f"calibration error {100 * self.calibration_error:.1f} %"]
        if self.none is not None and self.accuracy is not None:
            parts.append(
                f"none of these: {100 * self.none:.1f} % of the clips (accuracy then {100 * self.accuracy:.2f} %)"
            )
        if self.foreign_none is not None:
            parts.append(f"and {100 * self.foreign_none:.1f} % of {counted(self.foreign, 'foreign recording')}")
        return ", ".join(parts)


def score_honesty(
    logits: Mapping[str, NDArray[np.float32]],
    labels: Mapping[str, int],
    kind: ScoreKind,
    rejection: Rejection | None,
    foreign: Sequence[NDArray[np.float32]] = (),
) -> Honesty:
    """logits: (rows, classes) of each clip, labels: its class. foreign: (rows, classes) of recordings of no class."""
    names = [name for name in logits if name in labels]
    last = np.stack([logits[name][-1] for name in names])
    truth = np.array([labels[name] for name in names])
    right = last.argmax(axis=-1) == truth
    scores = probabilities(last, kind) if rejection is None else rejection.probabilities(last, kind)
    error = calibration_error(scores.max(axis=-1), right)
    if rejection is None:
        return Honesty(error, foreign=len(foreign))
    known = np.array([rejection.knows(logits[name]) for name in names])
    turned_away = float(np.mean([not rejection.knows(rows) for rows in foreign])) if foreign else None
    return Honesty(error, float((~known).mean()), float((right & known).mean()), len(foreign), turned_away)
