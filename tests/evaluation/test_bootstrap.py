"""Resampling by weights equals scoring the resampled frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import ConfigurationError
from pipelines.evaluation.scores import bootstrap
from pipelines.evaluation.scores.bootstrap import accuracy_interval, draw, precision_intervals
from pipelines.metrics.precision import precision_scores


def resampled(scores: np.ndarray, positives: np.ndarray, video: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Copy each video as often as it was drawn and score that."""
    rows = np.concatenate([np.tile(np.flatnonzero(video == name), count) for name, count in enumerate(weights)])
    result = precision_scores(scores[rows], positives[rows])
    return result.mean_ap, result.mean_cap


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.sampled_from([3, 1 << 21]))
def test_weights_equal_copies(seed: int, videos: int, chunk: int) -> None:
    generator = np.random.default_rng(seed)
    frames, replicates = 80, 9
    scores = generator.integers(0, 9, (frames, 3)).astype(np.float32)  # many ties
    positives = generator.random((frames, 3)) < [0.3, 0.05, 0.9]
    positives[0] = True
    video = np.append(np.arange(videos), generator.integers(0, videos, frames - videos))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "_CHUNK", chunk)  # pieces in one go, or one after the other
        of_map, of_mcap = precision_intervals(scores, positives, video, replicates, seed=7)
    expected = [resampled(scores, positives, video, weights) for weights in draw(videos, replicates, seed=7)]
    for interval, column in ((of_map, 0), (of_mcap, 1)):
        values = [pair[column] for pair in expected]
        np.testing.assert_allclose([interval.low, interval.high], np.nanpercentile(values, [2.5, 97.5]), atol=1e-12)


def test_interval_of_accuracy_covers_it() -> None:
    """About 95 of 100 intervals hold the truth."""
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(100):
        interval = accuracy_interval(generator.random(200) < 0.7)
        hits += interval.low <= 0.7 <= interval.high
    assert 88 <= hits <= 100


def test_the_same_seed_gives_the_same_interval() -> None:
    generator = np.random.default_rng(1)
    scores, video = generator.random((60, 2)), np.repeat(np.arange(12), 5)
    positives = generator.random((60, 2)) < 0.4
    assert precision_intervals(scores, positives, video, 50, 3) == precision_intervals(scores, positives, video, 50, 3)
    assert precision_intervals(scores, positives, video, 50, 3) != precision_intervals(scores, positives, video, 50, 4)


def test_interval_of_accuracy_at_its_ends() -> None:
    """Wilson's bounds as published: 10 of 10 is not certainty, and one recording says next to nothing."""
    ten, one = accuracy_interval(np.ones(10, bool)), accuracy_interval(np.ones(1, bool))
    assert ten.high == pytest.approx(1.0) and ten.low == pytest.approx(0.7225, abs=1e-4)
    assert one.low == pytest.approx(0.2065, abs=1e-4)
    none = accuracy_interval(np.zeros(10, bool))
    assert none.low == pytest.approx(0.0) and none.high == pytest.approx(1 - 0.7225, abs=1e-4)


def test_nothing_to_draw_from() -> None:
    with pytest.raises(ConfigurationError, match="needs recordings and replicates"):
        draw(0, 10, 0)
