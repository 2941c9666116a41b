"""A machine that cannot keep up: `drop` stays near the present, `wait` loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import UsageError
from pipelines.features.files.feature_rows import FeatureRows
from pipelines.features.joint import rows_of_streams
from pipelines.streaming import PlayOptions, Stream, StreamModel, StreamSession, find_sources
from pipelines.streaming.pipeline import LIVE_ROWS
from pipelines.streaming.predicting.prediction import Prediction
from tests.streaming.made_streams import played, scores_of, small_model, window_scores, write_rows, write_sound

HOP = 0.02  # seconds
PATIENCE = 300.0  # seconds before a test that hangs is given up


def run(path: Path, model: StreamModel, **play: Any) -> tuple[list[Prediction], Stream]:
    with Stream(find_sources([str(path)]), model, PlayOptions(**play)) as stream:
        return list(stream), stream


def before_steps(model: StreamModel, wait: Callable[[int], None]) -> StreamModel:
    """The same numbers, after `wait(number of the step)`."""
    quick: Callable[..., Any] = model.model.step_
    numbers = count()

    def step_(*arguments: Any) -> Any:
        wait(next(numbers))
        return quick(*arguments)

    model.model.step_ = step_  # type: ignore[method-assign]
    return model


def test_drop_skips_to_the_newest_row_and_counts(tmp_path: Path) -> None:
    """A model whose first step takes as long as all the media: what waits is bounded, and the newest rows are kept."""
    write_rows(tmp_path / "rows.npy", 120)
    most = 1 + round(0.15 / HOP) + 1  # in the model, waiting for it for less than the longest lag, and the newest
    streams: list[Stream] = []

    def wait(step: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while step == 0 and streams[0].statistics.sources[0].dropped < 120 - most and time.monotonic() < deadline:
            time.sleep(0.005)

    model = before_steps(small_model(tmp_path), wait)
    options = PlayOptions(late="drop", hop=HOP, longest_lag=0.15)
    with Stream(find_sources([str(tmp_path / "rows.npy")]), model, options) as stream:
        streams.append(stream)
        predictions = list(stream)
    summary = stream.summary()
    assert summary.dropped + len(predictions) == 120
    assert summary.sources[0]["dropped"] == summary.dropped
    assert 2 <= len(predictions) <= most
    indexes = [prediction.index for prediction in predictions]
    assert indexes[0] == 0
    assert indexes[-1] == 119
    assert indexes == sorted(set(indexes))
    assert [prediction.time for prediction in predictions] == pytest.approx([HOP * (index + 1) for index in indexes])
    # The window goes on with the rows that it gets.
    assert [prediction.restart for prediction in predictions] == [True] + [False] * (len(predictions) - 1)
    rows = np.load(tmp_path / "rows.npy")
    np.testing.assert_allclose(scores_of(predictions), window_scores(model, rows[indexes]), atol=1e-5)


def test_wait_drops_nothing_and_reads_no_further_than_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_rows(tmp_path / "rows.npy", 30)
    model = small_model(tmp_path)
    session = StreamSession(model.model)
    expected = np.stack([session.step({0: row})[0] for row in rows])
    read: list[int] = []  # rows that the source has given
    some = FeatureRows.__getitem__
    monkeypatch.setattr(FeatureRows, "__getitem__", lambda self, rows: read.append(rows.start) or some(self, rows))
    ahead: list[int] = []

    def wait(step: int) -> None:
        time.sleep(2.5 * HOP)  # slower than real time
        ahead.append(len(read) - step)

    slow = before_steps(model, wait)
    predictions, stream = run(tmp_path / "rows.npy", slow, late="wait", hop=HOP, longest_lag=0.1)
    assert stream.summary().dropped == 0
    np.testing.assert_array_equal(scores_of(predictions), expected)
    assert max(ahead) <= 1 + LIVE_ROWS + 1  # in the model, waiting for it, and waiting for room


def test_slow_features_skip_to_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = write_sound(tmp_path / "sound.wav", 2.5)
    model = small_model(tmp_path, "logmel", hop=0.1)

    def slow(streams: Any) -> Any:
        rows = rows_of_streams(streams)
        time.sleep(0.3 * sum(map(len, rows)))  # three times slower than real time
        return rows

    monkeypatch.setattr("pipelines.streaming.playing.turns.rows_of_streams", slow)
    predictions, stream = run(sound, model, late="drop", longest_lag=0.3)
    dropped = stream.summary().dropped
    assert dropped + len(predictions) == 25
    # Every row takes three, and the lag that is allowed holds three more; a busy machine drops the more.
    assert dropped >= 25 - 25 / 3 - 3
    indexes = [prediction.index for prediction in predictions]
    assert indexes == sorted(set(indexes))
    assert [prediction.time for prediction in predictions] == pytest.approx([0.1 * (index + 1) for index in indexes])


def test_dropping_needs_a_clock(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.npy")
    with pytest.raises(UsageError, match="--fast has none"):
        played([tmp_path / "rows.npy"], small_model(tmp_path), late="drop")


def test_real_time_is_real_time(tmp_path: Path) -> None:
    """The one test that looks at the clock, with room for a busy machine; `benchmarks/streaming.py` measures it."""
    sound = write_sound(tmp_path / "sound.wav", 2.0)
    model = small_model(tmp_path, "logmel", hop=0.1)
    played([sound], model)  # what is imported and built once does not count
    begin = time.monotonic()
    predictions, stream = run(sound, model)
    seconds = time.monotonic() - begin
    assert len(predictions) == 20
    assert 1.9 < seconds < 6.0
    assert stream.summary().dropped == 0
    begin = time.monotonic()
    played([sound], model)
    assert time.monotonic() - begin < seconds
