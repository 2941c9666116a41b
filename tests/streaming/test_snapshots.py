"""A stream that was stopped anywhere goes on from its snapshot with the same numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.metrics.rejection import Rejection
from pipelines.streaming import PlayOptions, PredictionOptions, Stream, StreamModel, find_sources
from pipelines.streaming.messages import Place
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.predicting.snapshots import load_snapshot, save_snapshot
from tests.streaming.made_streams import played, scores_of, small_model, step_by_step, write_rows, write_sound

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
    with pytest.raises(UsageError, match="was made with activation softmax, not sigmoid"):
        played([tmp_path / "a.npy"], replace(model, score_kind="sigmoid"), resume=state)
    other = r"is the state of another model, rows: resume with --model rows"
    with pytest.raises(CheckpointError, match=other.replace("rows", str(tmp_path / "rows.safetensors"))):
        played([tmp_path / "a.npy"], small_model(tmp_path, window=4), resume=state)
    with pytest.raises(InputError, match=r"there is no snapshot .*absent to resume from: leave --resume out"):
        played([tmp_path / "a.npy"], model, resume=tmp_path / "absent")
    assert played([tmp_path / "a.npy"], model, resume=state) == []


EDITS: dict[str, dict[str, Any]] = {
    "seen more rows of .* than there were": {"place": Place(0, 2, 2)},
    "stands at no place of a stream": {"place": Place(0, 9, 8)},
    "has the row 7 of a state of 1": {"slot": 7},
    "has begun, and has no row of the state": {"slot": None},
    "a source is not described": {"over": "no"},
    "probabilities that are none": {"smoothing": [[2.0, 0.0, 0.0, 0.0, 0.0]]},
    "a row has the wrong width": {"recent": [[1.0, 2.0]]},
    "something other than numbers": {"smoothing": [[float("nan")] * 5]},
    "an order of classes that is none": {"order": [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]},
    "a last row that is none": {"newest": [8, 2.25, 2.0, 2.0]},
}


@pytest.mark.parametrize("said", EDITS)
def test_a_snapshot_whose_parts_do_not_fit_together_is_refused(tmp_path: Path, said: str) -> None:
    model, state = small_model(tmp_path), tmp_path / "state"
    write_rows(tmp_path / "a.npy", 30)
    broken_off([tmp_path / "a.npy"], model, state, 9)
    snapshot = load_snapshot(state, model.model)
    assert snapshot.sources[0].slot == 0 and snapshot.state.position.tolist() == [snapshot.sources[0].place.index]
    edited = replace(snapshot, sources=tuple(replace(source, **EDITS[said]) for source in snapshot.sources))
    save_snapshot(state, model.model, edited, model.name)
    with pytest.raises(CheckpointError, match=rf"is damaged or was changed: .*{said}.*; start the stream again"):
        played([tmp_path / "a.npy"], model, resume=state)


@pytest.mark.parametrize("fitted", ["before", "after"])
def test_a_rule_for_none_that_came_or_went_with_the_snapshot(tmp_path: Path, fitted: str) -> None:
    """The same model may be given such a rule later: what was smoothed without its evidence is forgotten."""
    model, state, path = small_model(tmp_path), tmp_path / "state", tmp_path / "a.npy"
    write_rows(path, 30)
    ruled = replace(model, rejection=Rejection("energy", -1e9, over=4))
    first, second = (ruled, model) if fitted == "before" else (model, ruled)
    broken_off([path], first, state, 9)
    options = PlayOptions(fast=True, snapshot=state, every=1e-9, resume=state)
    with step_by_step(), Stream(find_sources([str(path)]), second, options, SMOOTH) as stream:
        later = list(stream)
    np.testing.assert_allclose(scores_of(later), scores_of(played([path], model))[-len(later) :], atol=1e-5)
    assert later and all(prediction.label is not None for prediction in later)


def test_two_sources_in_one_row_of_the_state_are_refused(tmp_path: Path) -> None:
    model, state = small_model(tmp_path), tmp_path / "state"
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path in paths:
        write_rows(path, 30)
    broken_off(paths, model, state, 12)
    snapshot = load_snapshot(state, model.model)
    edited = replace(snapshot, sources=tuple(replace(source, slot=0) for source in snapshot.sources))
    save_snapshot(state, model.model, edited, model.name)
    with pytest.raises(CheckpointError, match="two sources have the same row of the state"):
        played(paths, model, resume=state)
