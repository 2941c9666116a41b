"""What a model's reading says of known and foreign input: a discriminant analysis of the windows' means.

What tells noise from every class is often nothing that the encoder needs to tell the classes apart, so its row forgets
it; and where two clips meet, its row is like neither of them. The mean of the features over the window has both. So one
more number is read of each row: how far the window lies on the side of known input, by a discriminant analysis with one
covariance for known and foreign windows. It has as much to say as the encoder's own evidence: over the same clips both
vary alike.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.checkpoints.checkpoint import Checkpoint
from pipelines.model.transformer.model import ContinualTransformer
from pipelines.training.none_of_these.none_shift import WARM_UP
from pipelines.training.samples.recordings import Recording
from pipelines.training.samples.statistics import SMALLEST

Values = NDArray[np.float64]
# A checkpoint and recordings to their logits (2 · recordings, classes): halfway and at the end of each.
Answers = Callable[[Checkpoint, Sequence[Recording]], NDArray[np.float32]]

SHRINKAGE = 0.2  # of the covariance, towards the identity of features that all vary by 1
MOST_ROWS = 4_000  # of each kind: so many tell how features vary together
ENOUGH = 20  # held-out clips, which say how evidence varies; with fewer, some that were trained on do so, too
MOST_MEASURED = 60  # of these


def with_read_evidence(
    checkpoint: Checkpoint,
    validation: Sequence[Recording],
    known: Sequence[Recording],
    foreign: Sequence[Recording],
    in_a_row: Sequence[Recording],
    answers: Answers,
) -> Checkpoint:
    """The same model with what its reading knows of foreign input; as it is where it reads no evidence.

    validation: held-out clips, by which the evidence that is read and the encoder's are brought to one measure. known,
    foreign: to learn from. in_a_row: some of the known clips, as a stream plays them.
    """
    model = checkpoint.model
    if not isinstance(model, ContinualTransformer) or model.reading is None or not model.config.reading_evidence:
        return checkpoint
    window = model.config.window
    mine = [rows for kind in (known, in_a_row) if len(rows := _windows(kind, window))]
    theirs = _windows(foreign, window)
    if not mine or not len(theirs):
        return checkpoint
    weight, bias = _discriminant([*mine, theirs], [0.5 / len(mine)] * len(mine) + [0.5])
    told = replace(checkpoint, model=_reading(model, 0.0 * weight, 0.0))
    measured = validation if len(validation) >= ENOUGH else (*validation, *_some(known))
    read = np.concatenate([_means(clip, window, _halfway_and_end(clip)) for clip in measured]) @ weight + bias
    own = np.logaddexp.reduce(answers(told, measured).astype(np.float64), axis=-1)
    scale = float(own.std()) / max(float(read.std()), SMALLEST)
    return replace(checkpoint, model=_reading(model, scale * weight, scale * bias))


def _reading(model: ContinualTransformer, weight: Values, bias: float) -> ContinualTransformer:
    """A copy that reads this evidence."""
    told = copy.deepcopy(model)
    assert told.reading is not None
    with torch.no_grad():
        told.reading.linear.weight[-1] = torch.from_numpy(weight)
        told.reading.linear.bias[-1] = bias
    return told


def _some(recordings: Sequence[Recording]) -> Sequence[Recording]:
    return recordings[:: -(-len(recordings) // MOST_MEASURED) or 1]


def _halfway_and_end(recording: Recording) -> NDArray[np.int64]:
    """How many rows have been heard then."""
    return np.array([len(recording) // 2 + 1, len(recording)])


def _windows(recordings: Sequence[Recording], window: int) -> Values:
    """(rows, width): means over the last `window` rows; every so many rows, where there are very many."""
    every = -(-sum(map(len, recordings)) // MOST_ROWS) or 1
    chosen = list(_chosen(recordings, every))
    means = [_means(recording, window, ends) for recording, ends in zip(recordings, chosen, strict=True) if len(ends)]
    return np.concatenate(means) if means else np.zeros((0, 0))


def _chosen(recordings: Sequence[Recording], every: int) -> Iterator[NDArray[np.int64]]:
    """Of each recording how many rows have been heard where it is looked at: counted on from one to the next."""
    begin = 0
    for recording in recordings:
        ends = np.arange(begin, len(recording), every) + 1
        begin += every * len(ends) - len(recording)
        yield ends[ends > min(WARM_UP, len(recording) - 1)]


def _means(recording: Recording, window: int, ends: NDArray[np.int64]) -> Values:
    """(ends, width): means over the last `window` rows of so many."""
    rows = np.asarray(recording.finite(recording.rows[:]), np.float64)
    sums = np.concatenate([np.zeros((1, rows.shape[1])), rows.cumsum(axis=0)])
    begins = np.maximum(0, ends - window)
    return np.asarray((sums[ends] - sums[begins]) / (ends - begins)[:, None])


def _discriminant(kinds: Sequence[Values], shares: Sequence[float]) -> tuple[Values, float]:
    """Weight (width,) and bias of the logarithm of the odds of all kinds against the last one.

    kinds: (rows, width) of each, the last of them foreign. shares: of each in all. Features are measured by how much
    they vary in all of it: standardised by known clips alone, what hardly varies in them would be all that counts.
    """
    each = np.concatenate([np.full(len(rows), share / len(rows)) for rows, share in zip(kinds, shares, strict=True)])
    rows = np.concatenate(kinds)
    centre = each @ rows
    deviation = np.sqrt(each @ np.square(rows - centre))
    deviation = np.where(deviation > SMALLEST, deviation, np.inf)
    scaled = (rows - centre) / deviation
    is_foreign = np.arange(len(rows)) >= len(rows) - len(kinds[-1])
    means = [(each[side] @ scaled[side]) / each[side].sum() for side in (~is_foreign, is_foreign)]
    apart = scaled - np.where(is_foreign[:, None], means[1], means[0])
    covariance = (apart * each[:, None]).T @ apart
    common = max(float(np.trace(covariance)) / len(covariance), SMALLEST)
    shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * common * np.eye(len(covariance))
    direction = np.linalg.solve(shrunk, means[0] - means[1])
    weight = direction / deviation
    return weight, float(-direction @ (means[0] + means[1]) / 2 - weight @ centre)
