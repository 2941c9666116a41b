"""An hour of rows: memory stays flat, times do not drift, no thread is left."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from pipelines.streaming import PlayOptions, PredictionOptions, Stream, find_sources
from pipelines.streaming.output.histogram import TimeHistogram
from tests.streaming.made_streams import WIDTH, small_model, write_sound

PAGE = 4096  # bytes


def memory() -> float:
    """Megabytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_an_hour(tmp_path: Path) -> None:
    rows = 4 * 3600
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(rows, WIDTH)).astype(np.float32))
    model = small_model(tmp_path)
    threads = threading.active_count()
    sizes = []
    options = PredictionOptions(smooth=2.0)
    with Stream(find_sources([str(tmp_path / "rows.npy")]), model, PlayOptions(fast=True), options) as stream:
        for prediction in stream:
            if prediction.index % 480 == 0:
                sizes.append(memory())
    assert prediction.index == rows - 1
    assert prediction.time == pytest.approx(3600.0, abs=1e-6)
    assert len(sizes) == 30
    assert max(sizes[3:]) - sizes[3] < 10
    assert threading.active_count() == threads
    assert stream.summary().seconds == pytest.approx(3600.0)


def test_minutes_of_sound(tmp_path: Path) -> None:
    sound = write_sound(tmp_path / "a.wav", 120.0, rate=8000)
    model = small_model(tmp_path, "logmel", hop=0.5)
    with Stream(find_sources([str(sound)]), model, PlayOptions(fast=True)) as stream:
        times = [prediction.time for prediction in stream]
    np.testing.assert_allclose(times, 0.5 * np.arange(1, 241))


def test_percentiles_in_constant_memory() -> None:
    values = np.random.default_rng(0).lognormal(-5, 1.5, 20_000)
    histogram = TimeHistogram()
    for value in values:
        histogram.add(float(value))
    for percent in (1, 50, 95, 99.9):
        assert histogram.percentile(percent) == pytest.approx(np.percentile(values, percent), rel=0.05)
    assert histogram.to_dict()["max_ms"] == pytest.approx(1e3 * values.max(), abs=1e-3)
    assert TimeHistogram().to_dict() == {"p50_ms": 0, "p95_ms": 0, "p99_ms": 0, "max_ms": 0, "mean_ms": 0}
    histogram.add(0.0)
    histogram.add(1e9)
    assert histogram.percentile(0) >= 0
