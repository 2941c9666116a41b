"""The baseline that a model over time has to beat: the majority vote over single windows.

Every feature row is classified on its own, and a clip gets the class that most of its rows name. The classifier is
a softmax regression on standardised rows, fitted to the rows of the training clips (each has its clip's label) until
the gradient vanishes. It starts at zero and sees all rows at once, so there is nothing random in it: the same
features give the same baseline, to the last digit of the optimiser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.errors import InputError, UsageError
from pipelines.evaluation.scores.classification import ClassificationScore, score_clips
from pipelines.evaluation.scores.predictions import Predictions, make_predictions
from pipelines.metrics.precision import Integers
from pipelines.running.runner import Damage

NAME = "majority vote"
FLOATS = 1 << 23  # numbers that are fitted at most (32 MB): windows overlap, so evenly spaced rows say as much
PENALTY = 1e-3  # of the squared weights, relative to the mean loss of a row
ITERATIONS = 200
_SMALLEST = 1e-6  # a feature that varies less than this is a constant


@dataclass(frozen=True)
class Baseline:
    """What the vote is worth, and what it costs."""

    score: ClassificationScore
    predictions: Predictions  # of every row
    row_accuracy: float  # of single rows
    fitted_rows: int
    macs: int  # of one row
    parameters: int
    state_bytes: int  # a count for each class
    damaged: tuple[Damage, ...]  # clips to be scored that could not be read


@dataclass(frozen=True)
class SoftmaxRegression:
    """Logits (rows, classes) = rows (rows, width) · weight + bias."""

    weight: NDArray[np.float32]  # (width, classes)
    bias: NDArray[np.float32]  # (classes,)

    def probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """(rows, width) to (rows, classes)."""
        logits = torch.from_numpy(rows @ self.weight + self.bias)
        return np.asarray(logits.softmax(dim=1).numpy(), dtype=np.float32)


def majority_vote_baseline(dataset: Dataset, part: str, bootstrap: int = 0, seed: int = 0) -> Baseline:
    """Fit single rows of the training clips, and score the clips of `part` by vote."""
    if dataset.kind != "clips":
        raise UsageError(
            f"the majority vote is a baseline for clips, and {dataset.name} has labels for every frame: leave "
            "--baseline out"
        )
    train, _ = _read(dataset, dataset.split("train"), most=FLOATS)
    if not train:
        raise InputError("the majority vote cannot be fitted: no training clip has features that can be read")
    rows = np.concatenate([rows for _, rows in train])
    labels = np.repeat([_label(item) for item, _ in train], [len(rows) for _, rows in train])
    regression = fit_rows(rows, labels, len(dataset.class_names))
    scored, damaged = _read(dataset, dataset.split(part))
    if not scored:
        raise InputError(f"no clip could be used; the first, {damaged[0].name}: {damaged[0].reason}")
    predictions = make_predictions(
        np.concatenate([regression.probabilities(rows) for _, rows in scored]),
        np.repeat([_label(item) for item, _ in scored], [len(rows) for _, rows in scored]),
        np.repeat([item.name for item, _ in scored], [len(rows) for _, rows in scored]),
        classes=dataset.class_names,
        where="the baseline's scores",
    )
    width, classes = regression.weight.shape
    return Baseline(
        score=score_clips(predictions, dataset.class_names, bootstrap > 0)["vote"],
        predictions=predictions,
        row_accuracy=float((predictions.scores.argmax(axis=1) == predictions.label).mean()),
        fitted_rows=len(rows),
        macs=width * classes,
        parameters=(width + 1) * classes,
        state_bytes=8 * classes,
        damaged=tuple(damaged),
    )


def fit_rows(rows: NDArray[np.float32], labels: Integers, classes: int) -> SoftmaxRegression:
    """The softmax regression of labels (rows,) on rows (rows, width), by L-BFGS from zero."""
    mean = rows.mean(axis=0, dtype=np.float64)
    centred = rows - mean.astype(np.float32)
    deviation = np.sqrt(np.einsum("ij,ij->j", centred, centred) / len(rows)).astype(np.float64)
    scale = 1.0 / np.where(deviation > _SMALLEST, deviation, 1.0)
    centred *= scale.astype(np.float32)
    inputs = torch.from_numpy(centred)
    targets = torch.from_numpy(labels.astype(np.int64))
    weight = torch.zeros(rows.shape[1], classes, requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=ITERATIONS, tolerance_grad=1e-5, tolerance_change=1e-7, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(inputs @ weight + bias, targets) + PENALTY * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    # Standardising goes into the weights, so that the regression takes the features as they are.
    fitted = weight.detach().double().numpy() * scale[:, None]
    shift = bias.detach().double().numpy() - mean @ fitted
    return SoftmaxRegression(fitted.astype(np.float32), shift.astype(np.float32))


def _read(
    dataset: Dataset, items: Sequence[Item], most: int | None = None
) -> tuple[list[tuple[Item, NDArray[np.float32]]], list[Damage]]:
    """Items with their rows, and those that cannot be read. most: numbers of all items together."""
    good: list[tuple[Item, NDArray[np.float32]]] = []
    damaged: list[Damage] = []
    for item in items:
        try:
            rows = open_rows(item, dataset.trim)
        except InputError as error:
            damaged.append(Damage(item.name, str(error)))
            continue
        share = len(rows) if most is None else max(1, most // (len(items) * rows.width))
        values = rows[:: -(-len(rows) // share)]
        if np.isfinite(values).all():
            good.append((item, values))
        else:
            damaged.append(Damage(item.name, "its features hold NaN or infinity"))
    return good, damaged


def _label(item: Item) -> int:
    if item.label is None:
        raise InputError(f"{item.name} has no label")
    return item.label
