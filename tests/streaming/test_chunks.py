"""`--fast` in chunks: what one step after the other gives, for every model that takes chunks."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.checkpoints.builtin import builtin_names
from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.model import RecurrentConfig, make_model
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.streaming import (
    PlayOptions,
    PredictionOptions,
    Stream,
    StreamModel,
    StreamSession,
    Summary,
    find_sources,
    open_model,
)
from pipelines.streaming.messages import Remark, SourceEnded
from pipelines.streaming.predicting.encoder_stage import MOST_ROWS
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.predicting.snapshots import load_snapshot
from tests.model.test_lstr import SMALL as SMALL_LSTR
from tests.streaming.made_streams import WIDTH, Matrix, small_model, step_by_step, write_rows, write_sound

LENGTHS = (150, 1, 67, 3)  # rows: more than two chunks, and less than one
SMOOTH = PredictionOptions(smooth=1.0)


def run(paths: list[Path], model: StreamModel, **play: Any) -> tuple[list[Prediction | SourceEnded], Summary]:
    options = PlayOptions(**{"fast": True, **play})
    with Stream(find_sources([str(path) for path in paths]), model, options, SMOOTH) as stream:
        return list(stream.events()), stream.summary()


def assert_the_same(
    chunked: list[Prediction | SourceEnded], stepped: list[Prediction | SourceEnded], source: int
) -> None:
    mine, expected = (
        [event for event in events if isinstance(event, Prediction) and event.source_number == source]
        for events in (chunked, stepped)
    )
    for name in ("source", "index", "time", "begin", "end", "label", "warmup", "restart", "early"):
        assert [getattr(event, name) for event in mine] == [getattr(event, name) for event in expected], name
    scores = np.stack([prediction.scores for prediction in expected])
    np.testing.assert_allclose(
        [prediction.scores for prediction in mine], scores, rtol=0, atol=1e-5 * max(1.0, np.abs(scores).max())
    )
    np.testing.assert_allclose(
        [prediction.probabilities for prediction in mine],
        [prediction.probabilities for prediction in expected],
        rtol=1e-5,
        atol=1e-5,
    )
    assert [[label for label, _ in prediction.top] for prediction in mine] == [
        [label for label, _ in prediction.top] for prediction in expected
    ]


def write_sources(folder: Path, width: int, lengths: tuple[int, ...] = LENGTHS) -> list[Path]:
    paths = [folder / f"{number}.npy" for number in range(len(lengths))]
    for number, (path, rows) in enumerate(zip(paths, lengths, strict=True)):
        np.save(path, np.random.default_rng(number).normal(size=(rows, width)).astype(np.float32))
    return paths


@pytest.mark.parametrize("name", builtin_names())
def test_every_built_in_model_with_several_sources(tmp_path: Path, name: str) -> None:
    model = open_model(name)
    assert model.model.takes_chunks
    paths = write_sources(tmp_path, model.model.config.input_width)
    chunked, summary = run(paths, model, at_once=3)
    with step_by_step():
        stepped, expected = run(paths, model, at_once=3)
    for source in range(len(paths)):
        assert_the_same(chunked, stepped, source)
    ends = [event.number for event in chunked if isinstance(event, SourceEnded)]
    assert sorted(ends) == [0, 1, 2, 3]
    for place, event in enumerate(chunked):
        if isinstance(event, SourceEnded):  # nothing of a source comes after its end
            assert event.number not in [getattr(later, "source_number", None) for later in chunked[place:]]
    assert (summary.frames, summary.dropped, summary.seconds) == (expected.frames, 0, expected.seconds)
    assert summary.steps < summary.frames / 4 < expected.steps


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"lag": 2},
        {"blocks": 3, "stacking": "deep", "positional": "relative"},
        {"blocks": 2, "stacking": "deep", "positional": "rope", "lag": 3},
        {"blocks": 2, "stacking": "deep", "positional": "alibi", "class_token_block": 2},
        {"blocks": 2},  # retroactive: one step after the other, for all sources together
        {"positional": "static"},
    ],
    ids=str,
)
def test_encoders(tmp_path: Path, sizes: dict[str, Any]) -> None:
    model = small_model(tmp_path, **sizes)
    summary = check_chunks(tmp_path, model)
    assert (summary.steps < 40) == model.model.takes_chunks


@pytest.mark.parametrize(
    "config",
    [
        RecurrentConfig(input_width=WIDTH, embedding=8, width=8, layers=2, classes=5),
        replace(SMALL_LSTR, input_width=WIDTH),
    ],
    ids=lambda config: config.kind,
)
def test_other_kinds(tmp_path: Path, config: Any) -> None:
    torch.manual_seed(0)
    save_checkpoint(tmp_path / "model.safetensors", make_model(config).eval())
    check_chunks(tmp_path, open_model(tmp_path / "model.safetensors"))


def check_chunks(folder: Path, model: StreamModel) -> Summary:
    """Several sources in chunks give what they give step by step -> how the chunks went."""
    paths = write_sources(folder, WIDTH)
    chunked, summary = run(paths, model)
    with step_by_step():
        stepped, _ = run(paths, model)
    for source in range(len(paths)):
        assert_the_same(chunked, stepped, source)
    return summary


def test_from_sound(tmp_path: Path) -> None:
    model = small_model(tmp_path, "logmel", hop=0.05)
    sound = write_sound(tmp_path / "sound.wav", 7.0)
    chunked, _ = run([sound], model, start=0.5)
    with step_by_step():
        stepped, _ = run([sound], model, start=0.5)
    assert len(chunked) == 131
    assert_the_same(chunked, stepped, 0)


def test_rows_of_nan_and_windows_that_restart(tmp_path: Path) -> None:
    """A source in a loop whose rows are broken at the ends of chunks, where the window restarts, and in between."""
    model = small_model(tmp_path)
    rows = write_rows(tmp_path / "rows.npy", 90)
    rows[[0, 1, 15, 16, 40, 41, 89]] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    both = []
    for mode in (step_by_step, nullcontext):
        remarks: list[Remark] = []
        sources = find_sources([str(tmp_path / "rows.npy")])
        with mode(), Stream(sources, model, PlayOptions(fast=True, loop=True), SMOOTH, remarks.append) as stream:
            both.append(list(islice(stream.events(), 300)))
        assert remarks[0].text == "row 0 holds NaN or infinity: such rows are left out"
        assert len(remarks) == 1
    assert_the_same(both[1], both[0], 0)


@pytest.mark.parametrize("lag", [0, 2])
def test_a_window_that_restarts_within_a_chunk(tmp_path: Path, lag: int) -> None:
    """Rows that are too large for as long as the model remembers: it starts again, in the middle of a chunk."""
    model = small_model(tmp_path, lag=lag)
    rows = write_rows(tmp_path / "rows.npy", 60)
    rows[18:25] = 3e38
    np.save(tmp_path / "rows.npy", rows)
    chunked, _ = run([tmp_path / "rows.npy"], model)
    with step_by_step():
        stepped, _ = run([tmp_path / "rows.npy"], model)
    assert_the_same(chunked, stepped, 0)
    told = [event for event in chunked if isinstance(event, Prediction)]
    (again,) = [event for event in told[1:] if event.restart]
    assert again.index > 18 and again.warmup and again.early == (lag > 0)
    assert again.probabilities.argmax() == again.scores.argmax()  # nothing from before is in its smoothing


@pytest.mark.parametrize("mode", [nullcontext, step_by_step])
def test_a_model_without_memory_has_nothing_to_start_again(tmp_path: Path, mode: Any) -> None:
    """A row that is too large is left out, and what is smoothed goes on, as over a row of NaN."""
    torch.manual_seed(0)
    model = make_model(PerFrameConfig(input_width=WIDTH, classes=5)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(9)
    save_checkpoint(tmp_path / "model.safetensors", model)
    rows = write_rows(tmp_path / "rows.npy", 30)
    told = []
    for broken in (np.nan, 3e38):
        rows[20] = broken
        np.save(tmp_path / "rows.npy", rows)
        with mode():
            events, _ = run([tmp_path / "rows.npy"], open_model(tmp_path / "model.safetensors"))
        told.append([event for event in events if isinstance(event, Prediction)])
    left_out, too_large = told
    assert [event.index for event in too_large] == [event.index for event in left_out]
    assert [event.restart for event in too_large] == [True] + [False] * (len(too_large) - 1)
    np.testing.assert_allclose(
        [event.probabilities for event in too_large], [event.probabilities for event in left_out], atol=1e-6
    )


def test_a_snapshot_after_the_last_row_still_tells_what_the_lag_owes(tmp_path: Path) -> None:
    model = small_model(tmp_path, blocks=2, stacking="deep", lag=1)
    (path,) = write_sources(tmp_path, WIDTH, (40,))
    snapshot = tmp_path / "state"
    with (
        step_by_step(),
        Stream(find_sources([str(path)]), model, PlayOptions(fast=True, snapshot=snapshot, every=1e-9), SMOOTH) as s,
    ):
        list(islice(s, 3))
    (progress,) = load_snapshot(snapshot, model.model).sources
    rows = np.load(path)
    np.save(path, rows[: progress.place.row])  # the source is over where the snapshot stands
    with step_by_step():
        whole = [event for event in run([path], model)[0] if isinstance(event, Prediction)]
        with Stream(find_sources([str(path)]), model, PlayOptions(fast=True, resume=snapshot), SMOOTH) as stream:
            (owed,) = stream
    assert (owed.index, owed.begin, owed.end) == (whole[-1].index, whole[-1].begin, whole[-1].end)
    np.testing.assert_array_equal(owed.scores, whole[-1].scores)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 3 * MOST_ROWS), min_size=1, max_size=4), after=st.integers(1, 150))
def test_a_snapshot_goes_on_with_the_same_bits(tmp_path: Path, lengths: list[int], after: int) -> None:
    """Chunks end at the same places whether a stream was resumed or not, and whoever plays beside it."""
    model = small_model(tmp_path, blocks=2, stacking="deep", lag=1)
    paths = write_sources(tmp_path, WIDTH, tuple(lengths))
    whole = [run([path], model)[0] for path in paths]
    snapshot = tmp_path / "state"
    sources = find_sources([str(path) for path in paths])
    with Stream(sources, model, PlayOptions(fast=True, snapshot=snapshot, every=1e-9), SMOOTH) as stream:
        before = list(islice(stream, after))
    snapshot_was_written = snapshot.exists()
    after_it: list[Prediction] = []
    if snapshot_was_written:
        with Stream(sources, model, PlayOptions(fast=True, resume=snapshot), SMOOTH) as stream:
            after_it = list(stream)
        snapshot.unlink()
    for number, expected in enumerate(whole):
        later = [prediction for prediction in after_it if prediction.source_number == number]
        mine = [prediction for prediction in before if prediction.source_number == number]
        first = later[0].index if later else len(mine)
        joined = mine[:first] + later
        wanted = [event for event in expected if isinstance(event, Prediction)]
        if not snapshot_was_written:
            wanted = wanted[: len(joined)]
        np.testing.assert_array_equal(
            [prediction.scores for prediction in joined], [prediction.scores for prediction in wanted]
        )
        np.testing.assert_array_equal(
            [prediction.probabilities for prediction in joined], [prediction.probabilities for prediction in wanted]
        )


def test_steps_of_one_row_leave_the_others_alone(tmp_path: Path) -> None:
    model = small_model(tmp_path, blocks=2, stacking="deep")
    tokens: Matrix = np.random.default_rng(0).normal(size=(3, 40, WIDTH)).astype(np.float32)
    session, alone = StreamSession(model.model, 3), [StreamSession(model.model) for _ in range(3)]
    given: list[list[Matrix]] = [[], [], []]
    for row, begin, end in ((0, 0, 7), (2, 0, 1), (1, 0, 40), (0, 7, 40), (2, 1, 40)):
        scores, seen = session.steps(row, tokens[row, begin:end])
        given[row] += list(scores)
        assert seen == list(range(begin + 1, end + 1))
    for row in range(3):
        expected = [alone[row].step({0: token})[0] for token in tokens[row]]
        np.testing.assert_allclose(given[row], expected, atol=1e-5)
        assert session.seen(row) == 40
