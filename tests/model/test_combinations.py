"""Whatever a model is made of, and whatever can be had together: step = chunk = window = exported step, to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.errors import ConfigurationError
from pipelines.exporting.exporter import export_model
from pipelines.exporting.runtime import OnnxStep
from pipelines.exporting.verification import difference
from pipelines.model import ContinualTransformer, ModelConfig
from pipelines.model.state import StreamState
from tests.model.small import SIZES, relative_error, run_steps, small_model, stream

POSITIONS = ("none", "recycling", "relative", "rope", "alibi", "static")
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "blocks": st.integers(1, 3),
    "stacking": st.sampled_from(["exact", "deep"]),
    "window": st.integers(1, 6),
    "heads": st.sampled_from([1, 2]),
    "classes": st.integers(2, 5),
    "norm": st.sampled_from(["pre", "post"]),
    "final_norm": st.booleans(),
    "positional": st.sampled_from(POSITIONS),
    "class_token_block": st.sampled_from([None, None, 1, 2]),
    "lag": st.sampled_from([0, 0, 1, 2]),
    "embedding": st.sampled_from([None, 5, 8]),
    "shortcut": st.sampled_from(["none", "concatenate", "add"]),
    "recall": st.sampled_from([0, 0, 1, 3, 7]),
    "background": st.sampled_from([None, 0, 1]),
    "reading": st.sampled_from([0.0, 0.3, 0.9]),
    "reading_evidence": st.booleans(),
}


def possible(parts: dict[str, Any]) -> bool:
    try:
        ModelConfig(**{**SIZES, **parts})
    except ConfigurationError:
        return False
    return True


def models(**changes: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The parts of a model that can be had together."""
    return st.fixed_dictionaries({**PARTS, **changes}).filter(possible)


# Drawn at random, parts that exclude most of the others would be rare.
NOT_READING = {"reading": st.just(0.0), "reading_evidence": st.just(False)}
RECALLING = models(recall=st.integers(1, 7), lag=st.just(0), **NOT_READING)
READING = models(reading=st.sampled_from([0.3, 0.9]), recall=st.just(0), lag=st.just(0))
LAGGING = models(
    lag=st.integers(1, 3),
    shortcut=st.just("none"),
    recall=st.just(0),
    class_token_block=st.none(),
    **NOT_READING,
)
ANY = st.one_of(models(), RECALLING, READING, LAGGING)


def windows(model: ContinualTransformer, tokens: Tensor) -> Tensor:
    """(B, T, classes) of the regular model, on what each answer can depend on."""
    reach = model.config.receptive_field
    assert reach is not None
    with torch.no_grad():
        begins = [max(0, end - reach) for end in range(1, tokens.shape[1] + 1)]
        return torch.stack([model(tokens[:, begin:end], begin) for end, begin in enumerate(begins, 1)], dim=1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(parts=ANY, batch=st.integers(1, 3), lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_steps_chunks_and_windows(parts: dict[str, Any], batch: int, lengths: list[int]) -> None:
    """Steps and chunks of any length after each other, in one state; 0: a step that writes it in place."""
    model = small_model(torch.float64, **parts)
    tokens = stream(batch, sum(max(1, length) for length in lengths) + 3, torch.float64)
    expected = windows(model, tokens)
    assert relative_error(run_steps(model, tokens), expected) <= 1e-9
    state, answers = model.initial_state(batch), []
    begin = 0
    with torch.no_grad():
        for length in lengths:
            if length:
                logits, state = model.steps(tokens[:, begin : begin + length], state)
            else:
                row, state = model.step_(tokens[:, begin], state)
                logits = row.unsqueeze(1)
            answers.append(logits)
            begin += max(1, length)
        for place in range(begin, tokens.shape[1]):  # as a stream goes on, one state all the time
            row, state = model.step_(tokens[:, place], state)
            answers.append(row.unsqueeze(1))
    assert relative_error(torch.cat(answers, dim=1), expected) <= 1e-9


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(parts=ANY, moves=st.lists(st.integers(0, 8), min_size=8, max_size=30))
def test_streams_that_wait_and_begin_anew(parts: dict[str, Any], moves: list[int]) -> None:
    """Three streams in one state. A move is a step of some of them, in bits, or for 8 a new beginning of the first."""
    model, tokens = small_model(torch.float64, **parts), stream(3, len(moves), torch.float64)
    alone, places = run_steps(model, tokens), [0, 0, 0]
    state: StreamState = model.initial_state(3)
    with torch.no_grad():
        for move in moves:
            if move == 8:
                state, places[0] = model.reset_(state, [0]), 0
                continue
            active = torch.tensor([bool(move & 1 << row) for row in range(3)])
            token = torch.stack([tokens[row, places[row]] for row in range(3)])
            token[~active] = torch.nan  # what a stream that waits holds does not matter
            logits, state = model.step_(token, state, active)
            for row in active.nonzero().flatten().tolist():
                torch.testing.assert_close(logits[row], alone[row, places[row]], rtol=1e-9, atol=1e-9)
                places[row] += 1


@pytest.mark.slow
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(parts=st.one_of(RECALLING, READING, LAGGING))
def test_exported_steps(tmp_path: Path, parts: dict[str, Any]) -> None:
    """As far as the rings of two windows and of what is recalled go round."""
    model = small_model(**parts)
    save_checkpoint(tmp_path / "model.safetensors", model)
    (tmp_path / "step.onnx").unlink(missing_ok=True)
    step = OnnxStep(export_model(tmp_path / "model.safetensors", tmp_path / "step.onnx").path)
    tokens, state, scores = stream(2, 25), step.initial_state(2), []
    for token in tokens.unbind(1):
        answer, state = step(token.numpy(), state)
        scores.append(answer)
    assert difference(np.stack(scores, axis=1), windows(model, tokens).numpy()) <= 2e-5
