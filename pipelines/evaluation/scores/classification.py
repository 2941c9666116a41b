"""Accuracy of whole clips: one label per clip, one prediction out of a stream of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError
from pipelines.evaluation.scores.bootstrap import Interval, accuracy_interval
from pipelines.evaluation.scores.predictions import Predictions
from pipelines.metrics.precision import Integers
from pipelines.metrics.voting import majority_vote

# last: the scores at the last token. mean: of all scores of the clip. vote: the class that most tokens name.
Pooling = Literal["last", "mean", "vote"]
POOLINGS: tuple[Pooling, ...] = ("last", "mean", "vote")


@dataclass(frozen=True)
class ClassificationScore:
    """Accuracy over clips; arrays are in the order of `classes`."""

    pooling: Pooling
    classes: tuple[str, ...]
    clips: int
    accuracy: float
    per_class: NDArray[np.float64]  # (classes,) accuracy; NaN where no clip is of the class
    confusion: NDArray[np.int64]  # (true classes, predicted classes) clips
    interval: Interval | None = None
    notes: tuple[str, ...] = ()


def score_clips(
    predictions: Predictions, classes: Sequence[str], interval: bool = False
) -> dict[Pooling, ClassificationScore]:
    """Score every clip (`video`) by each pooling of its frames' scores."""
    if len(classes) != predictions.width:
        raise InputError(f"the scores have {predictions.width} columns, but there are {len(classes)} classes")
    truth = clip_labels(predictions)
    if truth.max() >= len(classes):
        raise InputError(f"label {int(truth.max())} is out of range: there are {len(classes)} classes")
    return {
        pooling: score_labels(truth, clip_predictions(predictions, pooling), classes, pooling, interval=interval)
        for pooling in POOLINGS
    }


def score_labels(
    truth: Integers,
    predicted: Integers,
    classes: Sequence[str],
    pooling: Pooling = "last",
    interval: bool = False,
) -> ClassificationScore:
    """Accuracy, per-class accuracy and confusion of class numbers, both (clips,)."""
    confusion = confusion_matrix(truth, predicted, len(classes))
    totals = confusion.sum(axis=1)
    absent = [name for name, total in zip(classes, totals, strict=True) if total == 0]
    correct = truth == predicted
    return ClassificationScore(
        pooling=pooling,
        classes=tuple(classes),
        clips=len(truth),
        accuracy=float(correct.mean()),
        per_class=np.where(totals > 0, np.diag(confusion) / np.maximum(totals, 1), np.nan),
        confusion=confusion,
        interval=accuracy_interval(correct) if interval else None,
        notes=(f"no clip of {', '.join(absent)}: no accuracy for it",) if absent else (),
    )


def clip_labels(predictions: Predictions) -> NDArray[np.int64]:
    """The class number of each clip, (clips,); every frame of a clip must have the same one."""
    label = predictions.label
    if label.ndim == 2:
        if not (label.sum(axis=1) == 1).all():
            raise InputError("accuracy per clip needs exactly one class per frame, but some have several or none")
        label = label.argmax(axis=1)
    starts = predictions.starts()
    mixed = label != label[starts][predictions.video]
    if mixed.any():
        name = predictions.videos[int(predictions.video[int(np.argmax(mixed))])]
        raise InputError(f"accuracy per clip needs one class per clip, but clip {name} has frames of several")
    return np.asarray(label[starts], dtype=np.int64)


def clip_predictions(predictions: Predictions, pooling: Pooling) -> NDArray[np.int64]:
    """The class number that each clip gets, (clips,)."""
    starts = predictions.starts()
    if pooling == "last":
        last = np.append(starts[1:], predictions.frames) - 1
        return np.asarray(predictions.scores[last].argmax(axis=1), dtype=np.int64)
    lengths = np.diff(np.append(starts, predictions.frames))
    mean = np.add.reduceat(predictions.scores.astype(np.float64), starts, axis=0) / lengths[:, None]
    if pooling == "mean":
        return np.asarray(mean.argmax(axis=1), dtype=np.int64)
    return majority_vote(predictions.scores, predictions.video, mean)


def confusion_matrix(truth: Integers, predicted: Integers, classes: int) -> NDArray[np.int64]:
    """Counts, (true classes, predicted classes). truth, predicted: (items,) class numbers."""
    if truth.shape != predicted.shape or truth.ndim != 1 or truth.size == 0:
        raise InputError(
            f"a confusion matrix needs as many predictions as labels, but got {predicted.shape} and {truth.shape}"
        )
    if min(truth.min(), predicted.min()) < 0 or max(truth.max(), predicted.max()) >= classes:
        raise InputError(f"a class number is out of range: there are {classes} classes")
    return np.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes)
