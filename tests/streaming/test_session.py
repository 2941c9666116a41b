"""The session: rows of a batch on their own, exactly as alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.errors import NonFiniteInputError
from pipelines.model import ContinualTransformer
from pipelines.running.passes import window_pass
from pipelines.streaming import StreamSession
from pipelines.streaming.output.segments import SegmentMerger
from pipelines.streaming.predicting.torch_engine import LARGE_BATCH
from tests.streaming.made_streams import WIDTH, Matrix, played, scores_of, small_model, window_scores, write_rows


@pytest.mark.parametrize("blocks", [1, 2])
def test_rows_that_come_when_they_please(tmp_path: Path, blocks: int) -> None:
    model = small_model(tmp_path, blocks=blocks)
    generator = np.random.default_rng(0)
    streams = generator.normal(size=(3, 25, WIDTH)).astype(np.float32)
    session = StreamSession(model.model, rows=3)
    given: list[list[np.ndarray]] = [[], [], []]
    while any(len(rows) < 25 for rows in given):
        chosen = [row for row in range(3) if len(given[row]) < 25 and generator.random() < 0.6]
        if chosen:
            for row, scores in session.step({row: streams[row, len(given[row])] for row in chosen}).items():
                given[row].append(scores)
    for row in range(3):
        np.testing.assert_allclose(np.stack(given[row]), window_scores(model, streams[row]), atol=1e-5)


def test_nan_changes_nothing_and_names_the_row(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    tokens = np.random.default_rng(0).normal(size=(10, WIDTH)).astype(np.float32)
    session = StreamSession(model.model, rows=2)
    outputs = []
    for place, token in enumerate(tokens):
        if place == 4:
            with pytest.raises(NonFiniteInputError) as caught:
                session.step({0: token, 1: np.full(WIDTH, np.nan, np.float32)})
            assert caught.value.rows == [1]
        outputs.append(session.step({0: token})[0])
    np.testing.assert_allclose(np.stack(outputs), window_scores(model, tokens), atol=1e-5)
    assert (session.seen(0), session.seen(1)) == (10, 0)


@pytest.mark.parametrize("blocks", [1, 2])
def test_few_rows_of_a_large_batch_step_alone(tmp_path: Path, blocks: int) -> None:
    """Rows that come in any order and number: each has the numbers of its own stream, and NaN names its own row."""
    model = small_model(tmp_path, blocks=blocks)
    generator = np.random.default_rng(0)
    streams = generator.normal(size=(2 * LARGE_BATCH, 12, WIDTH)).astype(np.float32)
    session = StreamSession(model.model, rows=len(streams))
    given: dict[int, list[Matrix]] = {row: [] for row in range(len(streams))}
    while waiting := [row for row, scores in given.items() if len(scores) < 12]:
        taken = generator.permutation(waiting)[: generator.integers(1, len(waiting) + 1)].tolist()
        tokens = {row: streams[row, len(given[row])] for row in taken}
        if len(tokens) > 1:
            with pytest.raises(NonFiniteInputError) as caught:
                session.step({**tokens, taken[-1]: np.full(WIDTH, np.inf, np.float32)})
            assert caught.value.rows == [taken[-1]]
        for row, scores in session.step(tokens).items():
            given[row].append(scores)
    for row, stream in enumerate(streams):
        alone = StreamSession(model.model)
        np.testing.assert_allclose(given[row], [alone.step({0: token})[0] for token in stream], atol=1e-5)


def test_snapshot_restore_and_restart(tmp_path: Path) -> None:
    model = small_model(tmp_path, blocks=2)
    tokens = np.random.default_rng(0).normal(size=(20, WIDTH)).astype(np.float32)
    session = StreamSession(model.model)
    for token in tokens[:9]:
        session.step({0: token})
    state = session.snapshot()
    first = [session.step({0: token})[0] for token in tokens[9:]]
    other = StreamSession(model.model)
    other.restore(state)
    assert other.seen(0) == 9
    np.testing.assert_array_equal([other.step({0: token})[0] for token in tokens[9:]], first)
    other.restart([0])
    assert other.warming_up(0)
    np.testing.assert_allclose(other.step({0: tokens[0]})[0], window_scores(model, tokens[:1])[0], atol=1e-5)


def regular_scores(model: ContinualTransformer, rows: Matrix) -> Matrix:
    with torch.inference_mode():
        return window_pass(model, [torch.from_numpy(rows)])[0].logits


@pytest.mark.parametrize("sizes", [{}, {"blocks": 2}, {"blocks": 2, "stacking": "deep"}, {"positional": "static"}])
def test_a_model_with_a_lag_speaks_of_an_earlier_row(tmp_path: Path, sizes: dict[str, object]) -> None:
    model = small_model(tmp_path, lag=2, **sizes)
    rows = write_rows(tmp_path / "rows.npy", 20)
    predictions = played([tmp_path / "rows.npy"], model, hop=0.5)
    assert [prediction.index for prediction in predictions] == list(range(22))
    # What is answered at the end is known there, not after it; it speaks of the last rows.
    times = [min(0.5 * (index + 1), 10.0) for index in range(22)]
    assert [prediction.time for prediction in predictions] == pytest.approx(times)
    ends = [0.5 * (index + 1) - 1.0 for index in range(22)]
    assert [prediction.end for prediction in predictions] == pytest.approx(ends)
    np.testing.assert_allclose(scores_of(predictions)[:20], regular_scores(model.model, rows), atol=1e-5)
    # At the end, the regular model says what it thinks of the two rows for which nothing more comes.
    for shorter in (1, 0):
        expected = regular_scores(model.model.with_lag(shorter), rows)[-1]
        np.testing.assert_allclose(scores_of(predictions)[21 - shorter], expected, atol=1e-5)
    merger = SegmentMerger("rows", "softmax")
    segments = [
        part for prediction in predictions for part in merger.push(prediction, model.class_names)
    ] + merger.finish()
    assert segments[0].start == 0.0
    assert segments[-1].end == pytest.approx(10.0)
    assert sum(part.frames for part in segments) == 20


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_a_source_that_is_shorter_than_the_lag_is_answered(tmp_path: Path, rows: int) -> None:
    model = small_model(tmp_path, lag=3, blocks=2, stacking="deep")
    tokens = write_rows(tmp_path / "rows.npy", rows)
    predictions = played([tmp_path / "rows.npy"], model, hop=0.5)
    spoken_of = [prediction for prediction in predictions if prediction.end > 0]
    assert [prediction.end for prediction in spoken_of] == pytest.approx([0.5 * (row + 1) for row in range(rows)])
    last = regular_scores(model.model.with_lag(0), tokens)[-1]
    np.testing.assert_allclose(spoken_of[-1].scores, last, atol=1e-5)


def test_a_session_that_goes_on_owes_the_same_answers(tmp_path: Path) -> None:
    model = small_model(tmp_path, lag=2, blocks=2, stacking="deep")
    tokens = write_rows(tmp_path / "rows.npy", 30)
    session, other = StreamSession(model.model, 2), StreamSession(model.model, 2)
    for token in tokens[:25]:
        session.step({1: token})
    other.restore(session.snapshot(), {1: session.recent(1)})
    for each in (session, other):
        for token in tokens[25:]:
            each.step({1: token})
    np.testing.assert_array_equal(session.late(1), other.late(1))
    assert session.late(0) == [] and len(session.late(1)) == 2
    session.restart([1])
    assert session.late(1) == []
