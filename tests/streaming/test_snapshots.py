"""A stream that was stopped anywhere goes on from its snapshot with the same numbers."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.streaming import PlayOptions, PredictionOptions, Stream, StreamModel, find_sources
from pipelines.streaming.predicting.prediction import Prediction
from tests.streaming.made_streams import played, scores_of, small_model, write_rows, write_sound

SMOOTH = PredictionOptions(smooth=0.5)


def broken_off(
    paths: list[Path], model: StreamModel, snapshot: Path, after: int, **play: Any
) -> tuple[list[Prediction], list[Prediction]]:
    """What a stream gave before it was broken off, and what its snapshot gives."""
    sources = find_sources([str(path) for path in paths])
    # Snapshots after every step, so that the break falls anywhere.
    options = PlayOptions(fast=True, snapshot=snapshot, every=1e-9, **play)
    with Stream(sources, model, options, SMOOTH) as stream:
        before = list(islice(stream, after))
    with Stream(sources, model, PlayOptions(fast=True, resume=snapshot, **play), SMOOTH) as stream:
        return before, list(islice(stream, 200))


@pytest.mark.parametrize("kind", ["rows", "sound"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_joined_outputs_are_those_of_the_undisturbed_run(tmp_path: Path, kind: str, blocks: int) -> None:
    if kind == "rows":
        model = small_model(tmp_path, blocks=blocks)
        write_rows(tmp_path / "a.npy", 40)
        path = tmp_path / "a.npy"
    else:
        model = small_model(tmp_path, "logmel", hop=0.1, blocks=blocks)
        path = write_sound(tmp_path / "a.wav", 4.0)
    whole = played([path], model, SMOOTH)
    before, after = broken_off([path], model, tmp_path / "state", 17)
    first = after[0].index
    assert 0 < first <= 17
    joined = before[:first] + after
    assert [prediction.index for prediction in joined] == [prediction.index for prediction in whole]
    np.testing.assert_array_equal(scores_of(joined), scores_of(whole))
    assert [prediction.top for prediction in joined] == [prediction.top for prediction in whole]
    assert [prediction.warmup for prediction in joined] == [prediction.warmup for prediction in whole]
    assert [prediction.time for prediction in joined] == [prediction.time for prediction in whole]


def test_several_sources_some_of_which_are_over(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    paths = [tmp_path / f"{index}.npy" for index in range(4)]
    for index, path in enumerate(paths):
        write_rows(path, 5 + 8 * index, seed=index)
    whole = played(paths, model, SMOOTH, at_once=2)
    before, after = broken_off(paths, model, tmp_path / "state", 21, at_once=2)
    for number in range(4):
        mine = [prediction for prediction in before if prediction.source_number == number]
        later = [prediction for prediction in after if prediction.source_number == number]
        first = later[0].index if later else len(mine)
        expected = [prediction for prediction in whole if prediction.source_number == number]
        joined = mine[:first] + later
        assert [prediction.index for prediction in joined] == [prediction.index for prediction in expected]
        # Which row of the batch a source gets depends on who is done first, and with it the last bit.
        np.testing.assert_allclose(
            [prediction.scores for prediction in joined], [prediction.scores for prediction in expected], atol=1e-5
        )


def test_a_snapshot_in_the_second_pass_of_a_loop(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    write_rows(tmp_path / "a.npy", 10)
    before, after = broken_off([tmp_path / "a.npy"], model, tmp_path / "state", 26, loop=True)
    first = after[0].index
    joined = before[:first] + after[:40]
    assert [prediction.index for prediction in joined] == list(range(first + 40))
    scores = scores_of(joined)
    np.testing.assert_array_equal(scores[20:30], scores[:10])


def test_a_snapshot_fits_only_its_own_stream(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    write_rows(tmp_path / "a.npy", 10)
    write_rows(tmp_path / "b.npy", 10)
    state = tmp_path / "state"
    played([tmp_path / "a.npy"], model, snapshot=state)
    with pytest.raises(UsageError, match=r"is a snapshot of .*a\.npy: name the same sources"):
        played([tmp_path / "b.npy"], model, resume=state)
    with pytest.raises(UsageError, match=r"was made with start 0\.0, not 1\.0"):
        played([tmp_path / "a.npy"], model, resume=state, start=1.0)
    other = r"is the state of another model, rows: resume with --model rows"
    with pytest.raises(CheckpointError, match=other.replace("rows", str(tmp_path / "rows.safetensors"))):
        played([tmp_path / "a.npy"], small_model(tmp_path, window=4), resume=state)
    with pytest.raises(InputError, match=r"there is no snapshot .*absent to resume from: leave --resume out"):
        played([tmp_path / "a.npy"], model, resume=tmp_path / "absent")
    assert played([tmp_path / "a.npy"], model, resume=state) == []
