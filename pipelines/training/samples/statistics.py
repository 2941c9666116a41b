"""Mean and deviation of features, and how standardising is folded into a model so that its users need not know."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.model.continual_model import ContinualModel
from pipelines.training.fitting.distributed import Processes
from pipelines.training.samples.recordings import Recording, feature_width

BLOCK = 4096  # rows read at a time
SMALLEST = 1e-6  # a feature that varies less than this is a constant


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """Per feature, over the training recordings."""

    mean: NDArray[np.float32]  # (width,)
    deviation: NDArray[np.float32]  # (width,); 1 for a constant

    def standardize(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, width) to (…, width)."""
        return np.asarray((rows - self.mean) / self.deviation, dtype=np.float32)


def feature_statistics(recordings: Sequence[Recording], processes: Processes | None = None) -> FeatureStatistics:
    """One pass over all rows, which several processes share."""
    processes = processes or Processes()
    width = feature_width(recordings)
    count, total, squares = 0, np.zeros(width), np.zeros(width)
    # Relative to the first row, so that large offsets do not eat the digits of the variance.
    reference = np.asarray(recordings[0].rows[0:1], dtype=np.float64)[0]
    for recording in (recordings[index] for index in processes.share(len(recordings))):
        for begin in range(0, len(recording), BLOCK):
            rows = recording.rows[begin : begin + BLOCK].astype(np.float64) - reference
            count += len(rows)
            total += rows.sum(axis=0)
            squares += np.square(rows).sum(axis=0)
    sums = processes.sum(torch.from_numpy(np.concatenate([[count], total, squares]))).cpu().numpy()
    count, total, squares = sums[0], sums[1 : 1 + width], sums[1 + width :]
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - np.square(mean), 0.0))
    deviation = np.where(deviation > SMALLEST, deviation, 1.0)
    return FeatureStatistics((mean + reference).astype(np.float32), deviation.astype(np.float32))


def folded(model: ContinualModel, statistics: FeatureStatistics) -> ContinualModel:
    """A copy that takes raw features and gives what `model` gives for standardised ones: W((x - μ)/σ) + b."""
    result = copy.deepcopy(model)
    _change_input(result, 1 / _double(statistics.deviation), -_double(statistics.mean))
    return result


def unfolded(model: ContinualModel, statistics: FeatureStatistics) -> ContinualModel:
    """The opposite of `folded`, for going on with a model that takes raw features."""
    result = copy.deepcopy(model)
    deviation = _double(statistics.deviation)
    _change_input(result, deviation, _double(statistics.mean) / deviation)
    return result


def _change_input(model: ContinualModel, scale: torch.Tensor, shift: torch.Tensor) -> None:
    """Make the model take x where it took scale · (x + shift)."""
    scale, shift = scale.to(model.device), shift.to(model.device)
    with torch.no_grad():
        for layer in model.input_layers:
            weight = layer.weight.double() * scale
            bias = layer.bias.double() + weight @ shift
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)


def _double(values: NDArray[np.float32]) -> torch.Tensor:
    return torch.from_numpy(values).double()
