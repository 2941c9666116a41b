"""A machine that cannot keep up: `drop` stays near the present, `wait` loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import UsageError
from pipelines.streaming import PlayOptions, Stream, StreamModel, find_sources
from pipelines.streaming.prediction import Prediction
from tests.streaming.made_streams import played, scores_of, small_model, write_rows, write_sound

HOP = 0.02  # seconds
STEP = 0.05  # seconds: slower than real time by a factor of 2.5


def slowed(model: StreamModel, seconds: float) -> StreamModel:
    """The same numbers, later."""
    quick: Callable[..., Any] = model.model.step_

    def step_(*arguments: Any) -> Any:
        time.sleep(seconds)
        return quick(*arguments)

    model.model.step_ = step_  # type: ignore[method-assign]
    return model


def run(path: Path, model: StreamModel, **play: Any) -> tuple[list[Prediction], Stream]:
    with Stream(find_sources([str(path)]), model, PlayOptions(**play)) as stream:
        return list(stream), stream


def test_drop_keeps_the_latency_bounded_and_counts(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.npy", 120)
    model = slowed(small_model(tmp_path), STEP)
    begin = time.monotonic()
    predictions, stream = run(tmp_path / "rows.npy", model, late="drop", hop=HOP, longest_lag=0.15)
    # 120 rows play for 2.4 s; a model that waited for each would take 6 s.
    assert time.monotonic() - begin < 5.5
    summary = stream.summary()
    assert summary.dropped > 30
    assert summary.dropped + len(predictions) == 120
    later = [one.latency_ms for one in predictions]
    assert max(later) < 2000
    # It does not grow: the last third is no later than the first, but for the noise of the machine.
    third = len(later) // 3
    assert np.median(later[-third:]) < np.median(later[:third]) + 200
    assert [one.index for one in predictions] == sorted({one.index for one in predictions})


def test_wait_drops_nothing(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.npy", 30)
    model = small_model(tmp_path)
    expected = scores_of(played([tmp_path / "rows.npy"], model))
    predictions, stream = run(tmp_path / "rows.npy", slowed(model, STEP), late="wait", hop=HOP, longest_lag=0.1)
    assert stream.summary().dropped == 0
    np.testing.assert_array_equal(scores_of(predictions), expected)
    # Playing slows down instead of falling behind: what waits is bounded by the queue, not by the length.
    assert max(one.latency_ms for one in predictions) < 3000


def test_slow_features_skip_to_now(tmp_path: Path) -> None:
    sound = write_sound(tmp_path / "sound.wav", 2.5)
    model = small_model(tmp_path, "logmel", hop=0.1)
    new = model.feature_streams.new

    def slow() -> Any:
        stream = new()
        push = stream.push_audio

        def push_audio(samples: Any, rate: int) -> Any:
            rows = push(samples, rate)
            time.sleep(0.3 * len(rows))  # three times slower than real time
            return rows

        stream.push_audio = push_audio  # type: ignore[method-assign]
        return stream

    model.feature_streams.new = slow  # type: ignore[method-assign]
    begin = time.monotonic()
    predictions, stream = run(sound, model, late="drop", longest_lag=0.3)
    assert time.monotonic() - begin < 7.0
    assert stream.summary().dropped > 5
    assert stream.summary().dropped + len(predictions) == 25
    assert max(one.latency_ms for one in predictions) < 3000


def test_dropping_needs_a_clock(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.npy")
    with pytest.raises(UsageError, match="--fast has none"):
        played([tmp_path / "rows.npy"], small_model(tmp_path), late="drop")


def test_real_time_is_real_time(tmp_path: Path) -> None:
    sound = write_sound(tmp_path / "sound.wav", 2.0)
    model = small_model(tmp_path, "logmel", hop=0.1)
    played([sound], model)  # what is imported and built once does not count
    begin = time.monotonic()
    arrivals = []
    with Stream(find_sources([str(sound)]), model, PlayOptions()) as stream:
        for _ in stream:
            arrivals.append(time.monotonic() - begin)
    assert len(arrivals) == 20
    assert 1.9 < arrivals[-1] < 4.0
    assert arrivals[0] < 1.5
    begin = time.monotonic()
    played([sound], model)
    assert time.monotonic() - begin < 1.8
