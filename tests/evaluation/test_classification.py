"""Accuracy per clip: last token, mean, majority vote, confusion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix as sklearn_confusion

from pipelines.errors import InputError
from pipelines.evaluation.scores.classification import (
    clip_labels,
    clip_predictions,
    confusion_matrix,
    score_clips,
)
from pipelines.evaluation.scores.predictions import Predictions, make_predictions

NAMES = ("blues", "jazz", "rock")


def clips() -> Predictions:
    """Clip 0: all say 0. Clip 1: two votes for 2, but the mean says 1 and the last frame 0."""
    scores = np.array(
        [[0.8, 0.1, 0.1], [0.6, 0.2, 0.2], [0.0, 0.45, 0.55], [0.0, 0.45, 0.55], [0.40, 0.35, 0.25]],
        dtype=np.float32,
    )
    return make_predictions(scores, np.array([0, 0, 1, 1, 1]), np.array(["a", "a", "b", "b", "b"]), NAMES)


def test_the_three_poolings() -> None:
    predictions = clips()
    assert clip_labels(predictions).tolist() == [0, 1]
    assert clip_predictions(predictions, "last").tolist() == [0, 0]
    assert clip_predictions(predictions, "vote").tolist() == [0, 2]
    mean = replace(predictions, scores=predictions.scores * [1, 1.2, 1])
    assert clip_predictions(mean, "mean").tolist() == [0, 1]


def test_scores() -> None:
    result = score_clips(clips(), NAMES, interval=True)
    last = result["last"]
    assert last.accuracy == 0.5 and last.clips == 2
    assert last.per_class[0] == 1.0 and last.per_class[1] == 0.0 and np.isnan(last.per_class[2])
    assert last.confusion.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert last.notes == ("no clip of rock: no accuracy for it",)
    assert last.interval is not None  # one of two: Wilson says almost nothing
    assert (last.interval.low, last.interval.high) == pytest.approx((0.0945, 0.9055), abs=1e-4)


def test_confusion_as_in_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    truth, predicted = generator.integers(0, 7, (2, 300))
    np.testing.assert_array_equal(confusion_matrix(truth, predicted, 7), sklearn_confusion(truth, predicted))


def test_what_cannot_be_scored_says_why() -> None:
    predictions = clips()
    mixed = replace(predictions, label=np.array([0, 0, 1, 2, 1]))
    with pytest.raises(InputError, match="clip b has frames of several"):
        score_clips(mixed, NAMES)
    with pytest.raises(InputError, match="3 columns, but there are 2 classes"):
        score_clips(predictions, NAMES[:2])
    with pytest.raises(InputError, match="label 9 is out of range"):
        score_clips(replace(predictions, label=np.full(5, 9)), NAMES)
    with pytest.raises(InputError, match="exactly one class per frame"):
        score_clips(replace(predictions, label=np.ones((5, 3), dtype=bool)), NAMES)
    with pytest.raises(InputError, match="as many predictions as labels"):
        confusion_matrix(np.zeros(3, int), np.zeros(2, int), 2)
    with pytest.raises(InputError, match="out of range"):
        confusion_matrix(np.zeros(2, int), np.full(2, 2), 2)
