"""From media to scores: a stream gives what the regular model gives on the features that `extract` writes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import ConfigurationError, InputError
from pipelines.features.extraction.run import ExtractionOptions, extract
from pipelines.features.files.feature_files import read_features
from pipelines.features.request import FeatureRequest
from pipelines.streaming import PlayOptions, Stream, find_sources
from pipelines.streaming.output.segments import SegmentMerger
from tests.streaming.made_streams import (
    played,
    scores_of,
    small_model,
    window_scores,
    write_rows,
    write_sound,
    write_video,
)


@pytest.mark.parametrize(
    ("features", "hop", "blocks"),
    [("logmel", 0.1, 1), ("mobilenet_v2", 0.2, 2), ("mobilenet_v2+logmel", 0.2, 1)],
    ids=["audio", "visual", "audio-visual"],
)
def test_scores_are_those_of_the_regular_model_on_extracted_features(
    tmp_path: Path, features: str, hop: float, blocks: int
) -> None:
    video = write_video(tmp_path / "video.mp4", 2.4)
    model = small_model(tmp_path, features, hop=hop, blocks=blocks)
    streams = FeatureRequest(features, hop=hop, random_weights="mobilenet" in features)
    extract([str(video)], tmp_path / "out", ExtractionOptions(streams))
    file = read_features(tmp_path / "out" / "video.npy")

    predictions = played([video], model)
    assert [prediction.index for prediction in predictions] == list(range(len(file.rows)))
    assert file.times is not None
    np.testing.assert_allclose([prediction.time for prediction in predictions], file.times)
    expected = window_scores(model, file.rows)
    np.testing.assert_allclose(scores_of(predictions), expected, atol=1e-4)
    assert [prediction.warmup for prediction in predictions] == [
        index < model.window - 1 for index in range(len(file.rows))
    ]
    # The extracted file itself plays as well.
    again = played([tmp_path / "out" / "video.npy"], model)
    np.testing.assert_allclose(scores_of(again), expected, atol=1e-4)
    np.testing.assert_allclose([prediction.time for prediction in again], file.times)


def test_playing_in_real_time_changes_no_number(tmp_path: Path) -> None:
    video = write_video(tmp_path / "video.mp4", 1.2)
    model = small_model(tmp_path, "mobilenet_v2+logmel", hop=0.2)
    fast = scores_of(played([video], model))
    np.testing.assert_allclose(scores_of(played([video], model, fast=False, longest_lag=60.0)), fast, atol=1e-5)


def test_a_part_of_a_file(tmp_path: Path) -> None:
    sound = write_sound(tmp_path / "sound.wav", 3.0)
    model = small_model(tmp_path, "logmel", hop=0.1)
    part = played([sound], model, start=1.0, duration=1.5)
    assert len(part) == 15
    assert part[0].time == pytest.approx(1.1)
    rows = write_rows(tmp_path / "rows.npy", 40)
    plain = small_model(tmp_path)
    cut = played([tmp_path / "rows.npy"], plain, start=1.0, duration=5.0, hop=0.25)
    np.testing.assert_allclose(scores_of(cut), window_scores(plain, rows[4:24]), atol=1e-5)
    assert cut[0].time == pytest.approx(1.25)
    # Rows have their places: a start between two of them begins with the next, at its own time.
    between = played([tmp_path / "rows.npy"], plain, start=0.9, duration=0.7, hop=0.25)
    assert [(row.index, row.begin, row.time) for row in between] == [(0, 1.0, 1.25), (1, 1.25, 1.5)]
    np.testing.assert_array_equal(scores_of(between), scores_of(cut)[:2])
    assert len(played([tmp_path / "rows.npy"], plain, duration=0.01, hop=0.25)) == 1  # as of sound


def test_features_that_do_not_fit_are_refused_with_the_reason(tmp_path: Path) -> None:
    model = small_model(tmp_path, "logmel", hop=0.1)
    sound = write_sound(tmp_path / "sound.wav", 1.0)
    streams = FeatureRequest("logmel", hop=0.2)
    extract([str(sound)], tmp_path / "out", ExtractionOptions(streams))
    other_hop = r"have a hop of 0\.2, not 0\.1, which is what the model was trained on"
    with pytest.raises(ConfigurationError, match=other_hop):
        played([tmp_path / "out" / "sound.npy"], model)
    write_rows(tmp_path / "rows.npy")
    with pytest.raises(ConfigurationError, match=r"have 6 numbers per row, but the model takes \d+"):
        played([tmp_path / "rows.npy"], model)
    with pytest.raises(InputError, match="does not say which features it takes"):
        played([sound], small_model(tmp_path))
    silent = write_video(tmp_path / "silent.mp4", 1.0, sound=False)
    with pytest.raises(InputError, match=r"has no audio track, but the model.s features need audio"):
        played([silent], model)


@pytest.mark.parametrize("lag", [0, 3])
def test_what_was_before_a_window_belongs_to_no_segment(tmp_path: Path, lag: int) -> None:
    """The first answers of a model with a lag speak of rows that were never there: before the start, or a restart."""
    model = small_model(tmp_path, "logmel", hop=0.1, lag=lag)
    sound = write_sound(tmp_path / "sound.wav", 3.0)
    part = played([sound], model, start=1.0)
    assert [prediction.early for prediction in part] == [place < lag for place in range(len(part))]
    assert part[0].begin == pytest.approx(1.0 - 0.1 * lag)
    merger = SegmentMerger("sound", "softmax")
    segments = [segment for row in part for segment in merger.push(row, model.class_names)] + merger.finish()
    assert (segments[0].start, segments[-1].end) == pytest.approx((1.0, 3.0))
    assert sum(segment.frames for segment in segments) == 20
    write_rows(tmp_path / "rows.npy", 8)
    rows = small_model(tmp_path, lag=lag)
    with Stream(find_sources([str(tmp_path / "rows.npy")]), rows, PlayOptions(fast=True, loop=True, hop=0.1)) as stream:
        turns = [prediction.early for prediction in islice(stream, 2 * (8 + lag))]
    assert turns == ([True] * lag + [False] * 8) * 2


@pytest.mark.parametrize("fast", [True, False])
def test_every_turn_of_a_loop_is_told_to_its_end(tmp_path: Path, fast: bool) -> None:
    """What a model with a lag owes to the last rows comes before the first row of the next turn, as at an end."""
    lag, path = 3, tmp_path / "rows.npy"
    write_rows(path, 8)
    model = small_model(tmp_path, lag=lag)
    once = played([path], model, hop=0.02)
    assert len(once) == 8 + lag
    with Stream(find_sources([str(path)]), model, PlayOptions(fast=fast, loop=True, hop=0.02)) as stream:
        turns = list(islice(stream, 2 * len(once)))
    for turn, begin in ((turns[: len(once)], 0.0), (turns[len(once) :], 0.16)):
        np.testing.assert_allclose(scores_of(turn), scores_of(once), atol=1e-5)
        assert [row.begin for row in turn] == pytest.approx([begin + row.begin for row in once])
        assert [row.restart for row in turn] == [True, *[False] * (len(once) - 1)]
    assert [row.index for row in turns] == [*range(8), *[7] * lag, *range(8, 16), *[15] * lag]
    merger = SegmentMerger("rows", "softmax")
    segments = [segment for row in turns for segment in merger.push(row, model.class_names)] + merger.finish()
    assert sum(segment.frames for segment in segments) == 16 and segments[-1].end == pytest.approx(0.32)
