"""Augmentation of feature rows, in training only. A sample's changes depend on its own random numbers alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.features.extractor import Rows
from pipelines.training.recipes.recipe import AugmentationOptions
from pipelines.training.samples.bands import BandLayout
from pipelines.training.samples.statistics import FeatureStatistics

CURVE_KNOTS = 6  # of the random frequency response: a microphone and a room, not single tones


def is_active(options: AugmentationOptions) -> bool:
    """Whether anything is on."""
    return options != AugmentationOptions()


def augment(
    rows: Rows,
    options: AugmentationOptions,
    layout: BandLayout,
    statistics: FeatureStatistics,
    generator: np.random.Generator,
) -> Rows:
    """(T, width) to (T, width), a copy. Masked features get their mean, which says nothing."""
    rows = rows.copy()
    length, width = rows.shape
    bands = layout.bands
    # Rows that stack several frames have each band several times: what happens to it must happen in all of them.
    frames = rows.reshape(length, width // bands, bands)
    mean = statistics.mean.reshape(-1, bands)
    if options.warp:
        frames[:] = warped(frames, 1.0 + float(generator.uniform(-options.warp, options.warp)), layout)
    if options.equalizer:
        curve = response(bands, options.equalizer, generator)
        raised = curve * statistics.deviation.reshape(-1, bands)
        frames += raised if layout.levels is None else raised * np.array(layout.levels, np.float32)[:, None]
    if options.gain:
        # A louder recording shifts logarithmic features together; features move in units of their own deviation.
        rows += np.float32(generator.normal(0.0, options.gain)) * statistics.deviation
    if options.noise:
        rows += generator.normal(0.0, options.noise, rows.shape).astype(np.float32) * statistics.deviation
    for _ in range(options.feature_masks):
        begin, end = _stretch(bands, options.feature_mask, generator)
        frames[:, :, begin:end] = mean[:, begin:end]
    if options.feature_dropout:
        dropped = generator.random(width) < options.feature_dropout
        rows[:, dropped] = statistics.mean[dropped]
    for _ in range(options.time_masks):
        begin, end = _stretch(length, options.time_mask, generator)
        rows[begin:end] = statistics.mean
    return rows


def warped(frames: Rows, factor: float, layout: BandLayout) -> Rows:
    """(…, bands) as of a voice whose frequencies are all `factor` times as high: a shorter vocal tract, or a longer.

    Bands come from between the old ones, straight; beyond the last band stands the last band, before the first the
    first.
    """
    bands = frames.shape[-1]
    knee = layout.knee * bands + layout.below
    places = np.arange(layout.below, layout.below + bands, dtype=np.float64)  # counted from 0 Hz
    # A mel scale that is straight up to the knee f₁ and goes on as f₁ (1 + ln(f / f₁)).
    frequencies = np.where(places <= knee, places, knee * np.exp(places / knee - 1)) / factor
    source = np.where(frequencies <= knee, frequencies, knee * (1 + np.log(np.maximum(frequencies, knee) / knee)))
    source = np.clip(source - layout.below, 0, bands - 1)
    low = np.floor(source).astype(np.int64)
    part = (source - low).astype(np.float32)
    return np.asarray((1 - part) * frames[..., low] + part * frames[..., np.minimum(low + 1, bands - 1)])


def response(bands: int, deviation: float, generator: np.random.Generator) -> Rows:
    """(bands,): a smooth random curve with mean 0, how much a microphone and a room raise each band."""
    knots = generator.normal(0.0, deviation, CURVE_KNOTS)
    curve = np.interp(np.linspace(0, CURVE_KNOTS - 1, bands), np.arange(CURVE_KNOTS), knots - knots.mean())
    return np.asarray(curve, dtype=np.float32)


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
