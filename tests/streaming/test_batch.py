"""Many sources in one batch: each gives what it gives alone, whatever becomes of the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipelines.features.audio.speech.grid_rows import GridRows
from pipelines.features.audio.windowed import DueRows
from pipelines.features.extractor import Rows
from pipelines.streaming import PlayOptions, Stream, find_sources
from pipelines.streaming.messages import SourceEnded
from pipelines.streaming.predicting.prediction import Prediction
from tests.streaming.made_streams import played, scores_of, small_model, write_rows, write_sound


@pytest.mark.parametrize("blocks", [1, 2])
def test_eight_in_one_batch_equal_eight_alone(tmp_path: Path, blocks: int) -> None:
    model = small_model(tmp_path, blocks=blocks)
    paths = [tmp_path / f"{index}.npy" for index in range(8)]
    for index, path in enumerate(paths):
        write_rows(path, rows=20 + 3 * index, seed=index)
    together = played(paths, model)
    for index, path in enumerate(paths):
        alone = played([path], model)
        assert len(alone) == 20 + 3 * index
        np.testing.assert_allclose(scores_of(together, index), scores_of(alone), atol=1e-5)


def test_one_that_is_cut_off_changes_nothing_for_the_others(tmp_path: Path) -> None:
    model = small_model(tmp_path, "logmel", hop=0.1)
    paths = [write_sound(tmp_path / f"{index}.wav", 1.0 + 0.2 * index) for index in range(4)]
    whole = played(paths, model)
    data = paths[1].read_bytes()
    paths[1].write_bytes(data[: len(data) // 2])
    with Stream(find_sources([str(path) for path in paths]), model, PlayOptions(fast=True)) as stream:
        events = list(stream.events())
    predictions = [event for event in events if isinstance(event, Prediction)]
    for index in (0, 2, 3):
        np.testing.assert_allclose(scores_of(predictions, index), scores_of(whole, index), atol=1e-6)
    kept = scores_of(predictions, 1)
    assert len(kept) == 5
    np.testing.assert_allclose(kept, scores_of(whole, 1)[:5], atol=1e-6)
    failed = [event for event in events if isinstance(event, SourceEnded) and event.error]
    assert [event.number for event in failed] == [1]
    assert "the file ends in the middle" in str(failed[0].error)
    assert stream.summary().errors == (str(failed[0].error),)


def test_sound_in_real_time_shares_the_feature_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that play side by side compute their rows in common batches; each has the numbers that it has alone."""
    batches: list[int] = []
    together = GridRows.together

    def counted(self: GridRows, streams: Sequence[DueRows]) -> list[Rows]:
        batches.append(len(streams))
        return together(self, streams)

    monkeypatch.setattr(GridRows, "together", counted)
    model = small_model(tmp_path, "speech", hop=0.08)
    paths = [write_sound(tmp_path / f"{index}.wav", 0.8 + 0.16 * index, 22_050) for index in range(6)]
    predictions = played(paths, model, fast=False, at_once=6, late="wait", longest_lag=60.0)
    assert batches and max(batches) > 1
    for index, path in enumerate(paths):
        alone = played([path], model)
        assert len(alone) == 10 + 2 * index
        np.testing.assert_allclose(scores_of(predictions, index), scores_of(alone), atol=1e-5)


def test_sources_wait_for_a_free_row(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    paths = [tmp_path / f"{index}.npy" for index in range(7)]
    for index, path in enumerate(paths):
        write_rows(path, rows=9 + index, seed=index)
    predictions = played(paths, model, at_once=3)
    for index, path in enumerate(paths):
        mine = [prediction for prediction in predictions if prediction.source_number == index]
        assert mine[0].warmup
        assert mine[0].restart
        np.testing.assert_allclose(scores_of(predictions, index), scores_of(played([path], model)), atol=1e-5)


def test_a_row_with_nan_is_left_out_and_said(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    rows = write_rows(tmp_path / "good.npy", 12)
    broken = rows.copy()
    broken[5, 2] = np.nan
    np.save(tmp_path / "bad.npy", broken)
    remarks: list[str] = []
    sources = find_sources([str(tmp_path / "good.npy"), str(tmp_path / "bad.npy")])
    with Stream(sources, model, PlayOptions(fast=True), on_remark=lambda remark: remarks.append(remark.text)) as stream:
        predictions = list(stream)
    np.testing.assert_allclose(scores_of(predictions, 0), scores_of(played([tmp_path / "good.npy"], model)), atol=1e-5)
    assert [prediction.index for prediction in predictions if prediction.source_number == 1] == [
        *range(5),
        *range(6, 12),
    ]
    assert remarks == ["row 5 holds NaN or infinity: such rows are left out"]


def test_all_sources_failing_raises_the_first_error(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"nothing")
    with pytest.raises(Exception, match="not audio or video that ffmpeg can read"):
        played([tmp_path / "a.mp4"], small_model(tmp_path, "logmel"))


def test_looping_goes_on_counting_and_restarts_the_window(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    write_rows(tmp_path / "rows.npy", 10)
    with Stream(find_sources([str(tmp_path / "rows.npy")]), model, PlayOptions(fast=True, loop=True)) as stream:
        first = [prediction for prediction, _ in zip(stream, range(30), strict=False)]
    assert [prediction.index for prediction in first] == list(range(30))
    assert first[29].time == pytest.approx(30 * 0.25)
    np.testing.assert_array_equal(scores_of(first)[20:], scores_of(first)[:10])
