"""From samples to tensors. Each sample has its own random numbers, so that it does not matter who loads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.features.extractor import Rows
from pipelines.training.recipes.recipe import AugmentationOptions
from pipelines.training.samples.augment import augment, is_active, mixing_share, resampling_places
from pipelines.training.samples.bands import BandLayout, band_layout
from pipelines.training.samples.recordings import Recording
from pipelines.training.samples.sampling import SAMPLE_STREAM, Sample
from pipelines.training.samples.statistics import FeatureStatistics


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples side by side, filled up at the end to the longest (no output looks ahead)."""

    tokens: Tensor  # (B, T, width)
    lengths: tuple[int, ...]  # tokens of each sample
    start: Tensor  # (B,) int64: where in the recycling positional encoding each sample begins
    targets: Tensor  # (B, T, classes)
    weight: Tensor  # (B, T): 0 where there is no loss
    future: Tensor | None  # (B, queries, classes): targets of the frames after each sample's last
    future_weight: Tensor | None  # (B, queries)
    names: tuple[str, ...]  # recording and rows of each sample, for messages

    def to(self, device: torch.device) -> Batch:
        if device.type == "cpu":
            return self
        moved = {
            name: value.to(device, non_blocking=True) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return Batch(**{**vars(self), **moved})


@dataclass(frozen=True, eq=False)
class BatchLoader:
    """Loads, standardises and augments samples."""

    recordings: Sequence[Recording]
    statistics: FeatureStatistics | None
    standardize: bool
    augmentation: AugmentationOptions
    positions: int  # entries of the positional table; the start is drawn from them
    lag: int  # the output at token t is about token t - lag
    queries: int  # coming frames that a decoder anticipates
    background: int | None = None
    background_weight: float = 1.0
    seed: int = 0
    layout: BandLayout | None = None  # of the bands in a row; None: nobody knows how the features were made

    def load(self, samples: Sequence[Sample], epoch: int, step: int, indices: Sequence[int] | None = None) -> Batch:
        """Some samples of a global batch: those at `indices`, or all. At least one."""
        chosen = range(len(samples)) if indices is None else indices
        loaded = [self._sample(samples, index, epoch, step) for index in chosen]
        future = future_weight = None
        if self.queries:
            coming = [self._future(samples[index]) for index in chosen]
            future = torch.from_numpy(np.stack([targets for targets, _ in coming]))
            future_weight = torch.from_numpy(np.stack([weight for _, weight in coming]))
        return Batch(
            tokens=_stacked([sample.rows for sample in loaded]),
            lengths=tuple(len(sample.rows) for sample in loaded),
            start=torch.tensor([sample.start for sample in loaded]),
            targets=_stacked([sample.targets for sample in loaded]),
            weight=_stacked([sample.weight for sample in loaded]),
            future=future,
            future_weight=future_weight,
            names=tuple(self.describe(samples[index]) for index in chosen),
        )

    def describe(self, sample: Sample) -> str:
        """A sample in words."""
        return f"{self.recordings[sample.recording].name}[{sample.begin}:{sample.end}]"

    def _sample(self, samples: Sequence[Sample], index: int, epoch: int, step: int) -> _LoadedSample:
        generator = np.random.default_rng([self.seed, SAMPLE_STREAM, epoch, step, index])
        start = int(generator.integers(self.positions)) if self.positions else 0
        options = self.augmentation
        loaded = self._plain(samples[index], start, generator)
        if options.mixup and len(samples) > 1:
            other = (index + 1 + int(generator.integers(len(samples) - 1))) % len(samples)
            loaded = _mixed(loaded, self._plain(samples[other], start, generator), mixing_share(options, generator))
        if options.joins and generator.random() < options.joins:
            before = self._plain(samples[int(generator.integers(len(samples)))], start, generator)
            loaded = _joined(before, loaded, int(generator.integers(1, len(before.rows) + 1)))
        if is_active(options) and self.statistics is not None:
            statistics = _unit(self.statistics) if self.standardize else self.statistics
            layout = self.layout or band_layout(options, None, loaded.rows.shape[1])
            rows = augment(loaded.rows, options, layout, statistics, generator)
            loaded = _LoadedSample(rows, loaded.targets, loaded.weight, start)
        return loaded

    def _plain(self, sample: Sample, start: int, generator: np.random.Generator) -> _LoadedSample:
        recording = self.recordings[sample.recording]
        index = np.arange(sample.begin, sample.end)
        if self.augmentation.speed:
            places = sample.end - 1 - resampling_places(len(sample), self.augmentation, generator)
            index, places = index[places >= 0], places[places >= 0]
            rows = _interpolated(recording, places)
            source = np.rint(places).astype(np.int64)
        else:
            rows, source = recording.rows[sample.begin : sample.end], index
        rows = recording.finite(rows, sample.begin)
        if self.standardize and self.statistics is not None:
            rows = self.statistics.standardize(rows)
        # What the output at a token is about.
        about = np.maximum(source - self.lag, 0)
        targets = recording.target_rows(about)
        weight = self._weight(recording, targets, about) * (index >= sample.first)
        return _LoadedSample(rows, targets, weight.astype(np.float32), start)

    def _weight(self, recording: Recording, targets: Rows, index: NDArray[np.int64]) -> Rows:
        weight = recording.valid_rows(index).astype(np.float32)
        if self.background is not None and self.background_weight != 1.0:
            weight = np.where(targets[:, self.background] > 0, weight * np.float32(self.background_weight), weight)
        return weight

    def _future(self, sample: Sample) -> tuple[Rows, Rows]:
        """Targets (queries, classes) and weights (queries,) of the frames after the sample; 0 past the end."""
        recording = self.recordings[sample.recording]
        index = sample.end + np.arange(self.queries)
        there = index < len(recording)
        index = np.minimum(index, len(recording) - 1)
        targets = recording.target_rows(index)
        return targets, (self._weight(recording, targets, index) * there).astype(np.float32)


@dataclass(frozen=True, eq=False)
class _LoadedSample:
    rows: Rows  # (T, width)
    targets: Rows  # (T, classes)
    weight: Rows  # (T,)
    start: int


def _mixed(sample: _LoadedSample, other: _LoadedSample, share: float) -> _LoadedSample:
    """`one` with a share of `other`, aligned at their ends, as far as both reach."""
    both = min(len(sample.rows), len(other.rows))
    rows, targets = sample.rows.copy(), sample.targets.copy()
    mine, theirs = slice(len(sample.rows) - both, None), slice(len(other.rows) - both, None)
    # A row of the other sample that nobody can label (ambiguous) must not be mixed in.
    usable = (other.weight[theirs] > 0) | (sample.weight[mine] == 0)
    part = np.where(usable, np.float32(share), np.float32(0.0))[:, None]
    rows[mine] = (1 - part) * rows[mine] + part * other.rows[theirs]
    targets[mine] = (1 - part) * targets[mine] + part * other.targets[theirs]
    return _LoadedSample(rows, targets, sample.weight, sample.start)


def _joined(before: _LoadedSample, sample: _LoadedSample, rows: int) -> _LoadedSample:
    """The last rows of `before`, which keep their own labels, and then `sample`."""
    return _LoadedSample(
        np.concatenate([before.rows[-rows:], sample.rows]),
        np.concatenate([before.targets[-rows:], sample.targets]),
        np.concatenate([before.weight[-rows:], sample.weight]),
        sample.start,
    )


def _interpolated(recording: Recording, places: NDArray[np.float64]) -> Rows:
    """Rows (k, width) at fractional places (k,), ascending and within the recording."""
    first = int(np.floor(places[0]))
    rows = recording.rows[first : int(np.ceil(places[-1])) + 1]
    low = np.floor(places).astype(np.int64) - first
    high = np.minimum(low + 1, len(rows) - 1)
    part = (places - np.floor(places)).astype(np.float32)[:, None]
    return np.asarray((1 - part) * rows[low] + part * rows[high], dtype=np.float32)


def _unit(statistics: FeatureStatistics) -> FeatureStatistics:
    return FeatureStatistics(np.zeros_like(statistics.mean), np.ones_like(statistics.deviation))


def _stacked(arrays: Sequence[Rows]) -> Tensor:
    """Arrays (T_i, …) to (B, longest, …), filled up with zeros."""
    longest = max(len(array) for array in arrays)
    result = np.zeros((len(arrays), longest, *arrays[0].shape[1:]), dtype=np.float32)
    for row, array in zip(result, arrays, strict=True):
        row[: len(array)] = array
    return torch.from_numpy(result)
