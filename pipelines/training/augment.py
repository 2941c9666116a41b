"""Augmentation of feature rows, in training only. A sample's changes depend on its own random numbers alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.training.recipe import AugmentationOptions
from pipelines.training.statistics import FeatureStatistics

Rows = NDArray[np.float32]


def is_active(options: AugmentationOptions) -> bool:
    """Whether anything is on."""
    return options != AugmentationOptions()


def augment(
    rows: Rows, options: AugmentationOptions, statistics: FeatureStatistics, generator: np.random.Generator
) -> Rows:
    """(T, width) to (T, width), a copy. Masked features get their mean, which says nothing."""
    rows = rows.copy()
    length, width = rows.shape
    if options.gain:
        # A louder recording shifts logarithmic features together; features move in units of their own deviation.
        rows += np.float32(generator.normal(0.0, options.gain)) * statistics.deviation
    if options.noise:
        rows += generator.normal(0.0, options.noise, rows.shape).astype(np.float32) * statistics.deviation
    for _ in range(options.feature_masks):
        begin, end = _stretch(width, options.feature_mask, generator)
        rows[:, begin:end] = statistics.mean[begin:end]
    if options.feature_dropout:
        dropped = generator.random(width) < options.feature_dropout
        rows[:, dropped] = statistics.mean[dropped]
    for _ in range(options.time_masks):
        begin, end = _stretch(length, options.time_mask, generator)
        rows[begin:end] = statistics.mean
    return rows


def mixing_share(options: AugmentationOptions, generator: np.random.Generator) -> float:
    """The share of a second sample: at most a half, so that the first one stays the main one."""
    share = float(generator.beta(options.mixup, options.mixup))
    return min(share, 1.0 - share)


def resampling_places(length: int, options: AugmentationOptions, generator: np.random.Generator) -> NDArray[np.float64]:
    """Where in the original each of `length` rows is taken from, in rows before the last: faster or slower.

    The last row stays where it is, and times reach back `length` / speed rows at most; a caller cuts off what lies
    before the recording's beginning.
    """
    speed = 1.0 + float(generator.uniform(-options.speed, options.speed))
    return np.arange(length - 1, -1, -1, dtype=np.float64) * np.float64(speed)


def _stretch(size: int, longest: int, generator: np.random.Generator) -> tuple[int, int]:
    length = int(generator.integers(0, min(longest, size) + 1))
    begin = int(generator.integers(0, size - length + 1))
    return begin, begin + length
