"""What single rows are worth: a linear and a small non-linear classifier that see one row and remember nothing.

A model over time that is not better than these has learned nothing from time. They are fitted in seconds, on the rows
that the model was trained on (of long data, evenly spaced ones), standardised, by a few passes of AdamW with a seed of
their own: the same rows give the same reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import InputError
from pipelines.training.fitting.losses import frame_losses
from pipelines.training.fitting.validation import Outputs, Validator
from pipelines.training.samples.recordings import Recording, feature_width
from pipelines.training.samples.statistics import FeatureStatistics, feature_statistics

Kind = Literal["linear", "network"]
KINDS: tuple[Kind, ...] = ("linear", "network")

FLOATS = 1 << 27  # numbers that are fitted at most (512 MB)
HIDDEN = 256  # of the network: wider ones gain less than a point on THUMOS14 and take seconds more
DROPOUT = 0.3
PASSES = 2
ROWS_IN_A_STEP = 128
LEAST_STEPS = 200  # small data are passed more often
LEARNING_RATE = 1e-3  # of the network
LINEAR_RATE = 2.0  # divided by the width: a step moves a logit by about rate · width
LARGEST_RATE = 0.05
WEIGHT_DECAY = 0.05
WARM_UP = 0.1  # of all steps
LABEL_SMOOTHING = 0.05
ROWS_AT_ONCE = 8192  # when scoring
CHANCE = 5  # clips: where one of two models names so many more, a sign test calls it chance (p = 0.06 at the best)
WHAT_TO_TRY = (
    "more epochs, a learning rate between 1e-4 and 1e-3 with schedule cosine, a shorter window, "
    "or more dropout where the training loss is far below the validation loss"
)


@dataclass(frozen=True, eq=False)
class RowClassifier:
    """A classifier of single rows, with what one row costs."""

    kind: Kind
    network: nn.Module  # (rows, width) standardised to (rows, classes)
    statistics: FeatureStatistics
    fitted_rows: int

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.network.parameters())

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one row."""
        return sum(layer.weight.numel() for layer in self.network.modules() if isinstance(layer, nn.Linear))

    def logits(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """(rows, width) to (rows, classes)."""
        with torch.inference_mode():
            parts = [
                self.network(torch.from_numpy(self.statistics.standardize(rows[begin : begin + ROWS_AT_ONCE])))
                for begin in range(0, len(rows), ROWS_AT_ONCE)
            ]
        return np.asarray(torch.cat(parts).numpy(), dtype=np.float32)


def fit_row_classifiers(
    recordings: Sequence[Recording], loss: Literal["cross-entropy", "binary"], seed: int = 0
) -> tuple[RowClassifier, ...]:
    """The linear classifier and the network, fitted to the labelled rows of training recordings."""
    statistics = feature_statistics(recordings)
    rows, targets = _labelled_rows(recordings, statistics)
    width, classes = rows.shape[1], targets.shape[1]
    fitted = []
    with torch.random.fork_rng(devices=[]):
        for kind in KINDS:
            torch.manual_seed(seed)
            network = _network(kind, width, classes)
            rate = LEARNING_RATE if kind == "network" else min(LINEAR_RATE / width, LARGEST_RATE)
            _fit(network, rows, targets, loss, rate)
            fitted.append(RowClassifier(kind, network.eval(), statistics, len(rows)))
    return tuple(fitted)


def _network(kind: Kind, width: int, classes: int) -> nn.Module:
    if kind == "linear":
        return nn.Linear(width, classes)
    return nn.Sequential(
        nn.Dropout(DROPOUT),
        nn.Linear(width, HIDDEN),
        nn.LayerNorm(HIDDEN),
        nn.ReLU(),
        nn.Dropout(DROPOUT),
        nn.Linear(HIDDEN, classes),
    )


def _labelled_rows(recordings: Sequence[Recording], statistics: FeatureStatistics) -> tuple[Tensor, Tensor]:
    """Standardised rows (N, width) and their targets (N, classes), without those that nobody can label."""
    total = sum(len(recording) for recording in recordings)
    stride = max(1, math.ceil(total * feature_width(recordings) / FLOATS))
    rows, targets = [], []
    for recording in recordings:
        index = np.arange(0, len(recording), stride)
        index = index[recording.valid_rows(index)]
        # Sliced first: features may stay on disk, where single rows are slow to come by.
        rows.append(statistics.standardize(recording.rows[0 : len(recording)][index]))
        targets.append(recording.target_rows(index))
    everything = np.concatenate(rows)
    if len(everything) == 0:
        raise InputError("no row of the training recordings has a label: there is nothing to fit")
    if not np.isfinite(everything).all():
        raise InputError("NaN or infinity in the features of the training recordings: extract them again")
    return torch.from_numpy(everything), torch.from_numpy(np.concatenate(targets))


def _fit(
    network: nn.Module, rows: Tensor, targets: Tensor, loss: Literal["cross-entropy", "binary"], highest: float
) -> None:
    """highest: learning rate between warm-up and cosine."""
    count = len(rows)
    size = min(ROWS_IN_A_STEP, count)
    steps = max(LEAST_STEPS, PASSES * (count // size))
    optimizer = torch.optim.AdamW(network.parameters(), lr=highest, weight_decay=WEIGHT_DECAY)
    order = torch.empty(0, dtype=torch.int64)
    network.train()
    for step in range(steps):
        if len(order) < size:
            order = torch.randperm(count)
        chosen, order = order[:size], order[size:]
        rising = min(1.0, (step + 1) / (WARM_UP * steps))
        rate = highest * rising * (1 + math.cos(math.pi * step / steps)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        losses = frame_losses(network(rows[chosen]), targets[chosen], loss, LABEL_SMOOTHING)
        losses.mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@dataclass(frozen=True)
class PerFrameScores:
    """What the classifiers of single rows reach on the recordings that a model is validated on; fractions."""

    metric: str  # map of frames, or accuracy_mean of clips: the mean over the rows of a clip
    linear: float
    network: float

    @property
    def best(self) -> float:
        return max(self.linear, self.network)


def score_row_classifiers(classifiers: Sequence[RowClassifier], validator: Validator) -> PerFrameScores:
    """Score them on every row, as the model is scored."""
    metric = "accuracy_mean" if validator.clips else "map"
    scorer = replace(validator, mode="chunk", stride=1, statistics=None, lag=0)
    values: dict[Kind, float] = {}
    for classifier in classifiers:
        outputs = [
            Outputs(index, np.arange(len(recording)), classifier.logits(recording.rows[0 : len(recording)]))
            for index, recording in enumerate(validator.recordings)
        ]
        values[classifier.kind] = scorer.score_outputs(outputs).value(metric)
    return PerFrameScores(metric, values["linear"], values["network"])
