"""What a model's reading says of known and foreign input: a discriminant analysis of the windows' means.

What tells noise from every class is often nothing that the encoder needs to tell the classes apart, so its row forgets
it; and where two clips meet, its row is like neither of them. The mean of the features over the window has both. So one
more number is read of each row: how far the window lies on the side of known input, by a discriminant analysis with one
covariance for known and foreign windows. It has as much to say as the encoder's own evidence: on held-out clips both
vary alike.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.checkpoints.checkpoint import Checkpoint
from pipelines.model.transformer.model import ContinualTransformer
from pipelines.training.samples.recordings import Recording

Values = NDArray[np.float64]

SHRINKAGE = 0.2  # of the covariance, towards the identity of features that all vary by 1
WARM_UP = 3  # rows at the beginning of a recording that have heard too little to count
MOST_ROWS = 10_000  # of each kind
CONSTANT = 1e-9  # a feature that varies less tells nothing


def with_read_evidence(
    checkpoint: Checkpoint,
    validation: Sequence[Recording],
    known: Sequence[Recording],
    foreign: Sequence[Recording],
    in_a_row: Sequence[Recording] = (),
) -> Checkpoint:
    """The same model with what its reading knows of foreign input; as it is where it reads no evidence.

    validation: held-out clips, by which the evidence that is read and the encoder's are brought to one measure. known,
    foreign: to learn from. in_a_row: some of the known clips, as a stream plays them.
    """
    model = checkpoint.model
    if not isinstance(model, ContinualTransformer) or model.reading is None or not model.config.reading_evidence:
        return checkpoint
    mine = [rows for kind in (known, in_a_row) if len(rows := _windows(kind, model.config.window))]
    theirs = _windows(foreign, model.config.window)
    if not mine or not len(theirs):
        return checkpoint
    weight, bias = _discriminant([*mine, theirs], [0.5 / len(mine)] * len(mine) + [0.5])
    told = copy.deepcopy(model)
    without = _evidence(_reads(told, 0.0 * weight, 0.0), validation)
    read = _evidence(_reads(told, weight, bias), validation) - without
    scale = float(without.std()) / max(float(read.std()), CONSTANT)
    return replace(checkpoint, model=_reads(told, scale * weight, scale * bias))


def _reads(model: ContinualTransformer, weight: Values, bias: float) -> ContinualTransformer:
    """The model itself, which now reads that evidence."""
    assert model.reading is not None
    with torch.no_grad():
        model.reading.linear.weight[-1] = torch.from_numpy(weight)
        model.reading.linear.bias[-1] = bias
    return model


def _windows(recordings: Sequence[Recording], window: int) -> Values:
    """(rows, width): means over the last `window` rows, thinned out where there are very many."""
    every = max(1, sum(map(len, recordings)) // MOST_ROWS)
    means = []
    for recording in recordings:
        rows = np.asarray(recording.finite(recording.rows[:]), np.float64)
        sums = np.concatenate([np.zeros((1, rows.shape[1])), rows.cumsum(axis=0)])
        ends = np.arange(min(WARM_UP, len(rows) - 1) + 1, len(rows) + 1, every)
        begins = np.maximum(0, ends - window)
        means.append((sums[ends] - sums[begins]) / (ends - begins)[:, None])
    return np.concatenate(means) if means else np.zeros((0, 0))


def _discriminant(kinds: Sequence[Values], shares: Sequence[float]) -> tuple[Values, float]:
    """Weight (width,) and bias of the logarithm of the odds of all kinds against the last one.

    kinds: (rows, width) of each, the last of them foreign. shares: of each in all. Features are measured by how much
    they vary in all of it: standardised by known clips alone, what hardly varies in them would be all that counts.
    """
    each = np.concatenate([np.full(len(rows), share / len(rows)) for rows, share in zip(kinds, shares, strict=True)])
    rows = np.concatenate(kinds)
    centre = each @ rows
    deviation = np.sqrt(each @ np.square(rows - centre))
    deviation = np.where(deviation > CONSTANT, deviation, np.inf)
    scaled = (rows - centre) / deviation
    is_foreign = np.arange(len(rows)) >= len(rows) - len(kinds[-1])
    means = [(each[side] @ scaled[side]) / each[side].sum() for side in (~is_foreign, is_foreign)]
    apart = scaled - np.where(is_foreign[:, None], means[1], means[0])
    covariance = (apart * each[:, None]).T @ apart
    common = max(float(np.trace(covariance)) / len(covariance), CONSTANT)
    shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * common * np.eye(len(covariance))
    direction = np.linalg.solve(shrunk, means[0] - means[1])
    weight = direction / deviation
    return weight, float(-direction @ (means[0] + means[1]) / 2 - weight @ centre)


def _evidence(model: ContinualTransformer, recordings: Sequence[Recording]) -> Values:
    """(2 · recordings,): that of each one halfway and at its end, as a stream is judged at every row."""
    told: list[float] = []
    with torch.inference_mode():
        for recording in recordings:
            tokens = torch.from_numpy(np.asarray(recording.rows[:])).to(model.dtype)
            logits, _ = model.steps(tokens[None], model.initial_state(1))
            told += logits[0, [len(recording) // 2, -1]].double().logsumexp(dim=-1).tolist()
    return np.array(told)
