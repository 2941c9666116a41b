"""What weights of fewer bits cost a model, measured beside float32 on the same rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.evaluation.scores.predictions import Predictions
from pipelines.model.precision import Precision


@dataclass(frozen=True)
class PrecisionLoss:
    """A model in fewer bits against itself in float32."""

    precision: Precision
    float32_score: float  # a fraction, as the score beside it
    largest_difference: float  # of a probability, over all rows and classes
    same_class: float  # share of rows for which both name the same class


def precision_loss(
    precision: Precision, float32_score: float, packed: Predictions, exact: Predictions
) -> PrecisionLoss:
    """Compare the predictions of both, which are of the same rows in the same order."""
    difference = np.abs(packed.scores.astype(np.float64) - exact.scores)
    same = packed.scores.argmax(axis=1) == exact.scores.argmax(axis=1)
    return PrecisionLoss(precision, float32_score, float(difference.max()), float(same.mean()))
