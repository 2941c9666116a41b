"""The linear reading of a model, fitted before training: the mean of two linear answers to the means of clips.

One is a discriminant analysis. All classes share one covariance, which is shrunk towards a multiple of the identity, as
few clips cannot tell how thousands of features vary together. How far, and how sure the reading may be of itself, is
what gives clips that were left out the smallest loss. The other one is a softmax regression with small weights, which
looks at clips near the borders where the first looks at all of a class: they err on different clips, and both together
on fewer than either. Pieces of clips are read beside whole ones, so that a window that is not full yet can be read.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from pipelines.model.continual_model import ContinualModel
from pipelines.model.transformer.model import ContinualTransformer
from pipelines.training.samples.recordings import Recording
from pipelines.training.samples.statistics import FeatureStatistics, feature_statistics

Values = NDArray[np.float64]

PIECES = 4  # of a clip, read beside the whole
FOLDS = 5
SHRINKAGES = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98)
SCALES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)  # of logits: below 1, less sure
LEAST_VARIANCE = 1e-3  # within a class: clips that are all alike, or alone, do not say how others vary
NEGLIGIBLE = 1e-10  # of the largest variance along an axis
UNSURE = 2  # clips more than there are, of which one may be anything: nobody is right about the next one for certain
SMALLNESS = 10.0  # of the regression's weights: half of it times their squares is added to the sum of the losses
STEPS = 100  # of L-BFGS, at most
MOST_ROWS = 10_000  # that the regression looks at
UNKNOWN = (0.6, 0.05)  # where no class has two clips that could be told apart from each other


class Discriminant:
    """A discriminant analysis of rows (N, width) with labels; what does not depend on the shrinkage is done once."""

    def __init__(self, rows: Values, labels: NDArray[np.int64]) -> None:
        self.classes = np.unique(labels)
        self._means = np.stack([rows[labels == label].mean(axis=0) for label in self.classes])
        deviations = rows - self._means[np.searchsorted(self.classes, labels)]
        squares, self._axes = _principal(deviations)
        self._variances = squares / max(1, len(rows) - len(self.classes))

    def read(self, shrinkage: float) -> tuple[Values, Values]:
        """Weight (classes, width) and bias (classes,) of the classes that there are."""
        common = float(self._variances.sum()) / self._axes.shape[1]
        if common < LEAST_VARIANCE:  # as much as features that are standardised vary in all
            common = 1.0
        centre = self._means.mean(axis=0)
        apart = self._means - centre
        along = apart @ self._axes.T  # the part of what is apart that clips of a class vary along
        scaled = along / ((1 - shrinkage) * self._variances + shrinkage * common)
        weight = scaled @ self._axes + (apart - along @ self._axes) / (shrinkage * common)
        return weight, -0.5 * np.einsum("cw,cw->c", weight, self._means + centre)


def softmax_regression(rows: Values, labels: NDArray[np.int64], classes: int) -> tuple[Values, Values]:
    """Weight (classes, width) and bias (classes,) of rows (N, width) with labels 0 to classes - 1."""
    if len(rows) > MOST_ROWS:  # by chance: at even distances they would be the same piece of every clip
        chosen = np.sort(np.random.default_rng(0).choice(len(rows), MOST_ROWS, replace=False))
        rows, labels = rows[chosen], labels[chosen]
    inputs, targets = torch.from_numpy(rows), torch.from_numpy(labels)
    weight = torch.zeros(classes, rows.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        total = functional.cross_entropy(functional.linear(inputs, weight, bias), targets, reduction="sum")
        total = total + 0.5 * SMALLNESS * weight.square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach().numpy(), bias.detach().numpy()


def _principal(deviations: Values) -> tuple[Values, Values]:
    """Sums of squares (k,) along axes (k, width) of deviations (N, width), by the smaller of their two products.

    Of thousands of clips with thousands of features that takes seconds, where a decomposition of them takes minutes.
    """
    few = len(deviations) < deviations.shape[1]
    squares, vectors = np.linalg.eigh(deviations @ deviations.T if few else deviations.T @ deviations)
    kept = squares > NEGLIGIBLE * squares[-1]
    squares, axes = squares[kept], vectors.T[kept]
    return squares, axes @ deviations / np.sqrt(squares)[:, None] if few else axes


def fit_reading(
    model: ContinualModel,
    recordings: Sequence[Recording],
    groups: Sequence[Hashable],
    statistics: FeatureStatistics | None,
) -> None:
    """Give a model its reading, where it has one. recordings: clips with labels, to learn from.

    groups: of each recording; what belongs together is left out together when the shrinkage is chosen. statistics: by
    which the model's features will be standardised; None: not at all.
    """
    if not isinstance(model, ContinualTransformer) or model.reading is None:
        return
    known = statistics or feature_statistics(recordings)
    parts = [_parts(known.standardize(recording.finite(recording.rows[:]))) for recording in recordings]
    labels = np.array([recording.label for recording in recordings])
    shrinkage, scale = _chosen(parts, labels, groups)
    rows, row_labels = np.concatenate(parts), np.repeat(labels, [len(part) for part in parts])
    fitted = Discriminant(rows, row_labels)
    answers = fitted.read(shrinkage)
    others = softmax_regression(rows, np.searchsorted(fitted.classes, row_labels), len(fitted.classes))
    some, biases = (0.5 * (scale * mine + other) for mine, other in zip(answers, others, strict=True))
    classes = model.config.classes
    weight, bias = np.zeros((classes, some.shape[1])), np.full(classes, biases.min())
    weight[fitted.classes], bias[fitted.classes] = some, biases
    if statistics is None:
        weight = weight / known.deviation
        bias = bias - weight @ known.mean
    with torch.no_grad():
        linear = model.reading.linear
        linear.weight[:classes] = torch.from_numpy(weight)
        linear.bias[:classes] = torch.from_numpy(bias)
        linear.weight[classes:] = 0.0  # the evidence, which `none_of_these/read_evidence.py` fits after training
        linear.bias[classes:] = 0.0


def _parts(rows: NDArray[np.float32]) -> Values:
    """The mean of a clip, and of its pieces: (1 to 1 + PIECES, width)."""
    pieces = np.array_split(rows.astype(np.float64), min(PIECES, len(rows)))
    return np.stack([rows.mean(axis=0, dtype=np.float64), *(piece.mean(axis=0) for piece in pieces)])


def _chosen(parts: Sequence[Values], labels: NDArray[np.int64], groups: Sequence[Hashable]) -> tuple[float, float]:
    """Shrinkage and scale by the loss on clips that are left out, fold by fold."""
    folds, unsure = _folds(labels, groups), 1 / (len(labels) + UNSURE)
    losses, count = np.zeros((len(SHRINKAGES), len(SCALES))), 0
    for fold in sorted(set(folds)):
        kept = [index for index in range(len(parts)) if folds[index] != fold]
        if not kept or len(set(labels[kept])) < 2:
            continue
        rows = np.concatenate([parts[index] for index in kept])
        fitted = Discriminant(rows, np.repeat(labels[kept], [len(parts[index]) for index in kept]))
        left = [i for i in range(len(parts)) if folds[i] == fold and labels[i] in fitted.classes]
        if not left:
            continue
        whole, truth = np.stack([parts[i][0] for i in left]), np.searchsorted(fitted.classes, labels[left])
        for row, shrinkage in enumerate(SHRINKAGES):
            weight, bias = fitted.read(shrinkage)
            logits = whole @ weight.T + bias
            losses[row] += [_loss(scale * logits, truth, unsure) for scale in SCALES]
        count += len(left)
    if not count:
        return UNKNOWN
    best, scale = divmod(int(losses.argmin()), len(SCALES))
    return SHRINKAGES[best], SCALES[scale]


def _folds(labels: NDArray[np.int64], groups: Sequence[Hashable]) -> list[int]:
    """A fold for each clip: groups are dealt out in turn, class by class, so that every fold has clips of each."""
    order = np.random.default_rng(0).permutation(len(labels))
    dealt: dict[Hashable, int] = {}
    for index in order[np.argsort(labels[order], kind="stable")].tolist():
        dealt.setdefault(groups[index], len(dealt) % FOLDS)
    return [dealt[group] for group in groups]


def _loss(logits: Values, truth: NDArray[np.int64], unsure: float) -> float:
    """Sum of the cross-entropies of (clips, classes), where a share of each clip may be of any class.

    Without it, clips of which all are named rightly would want a reading that is as sure as can be.
    """
    highest = logits.max(axis=1, keepdims=True)
    sums = np.log(np.exp(logits - highest).sum(axis=1)) + highest[:, 0]
    wanted = (1 - unsure) * logits[np.arange(len(logits)), truth] + unsure * logits.mean(axis=1)
    return float((sums - wanted).sum())
