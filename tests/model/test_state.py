"""State is a value: rows come and go on their own, snapshots restore, and bad input harms nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from pipelines.errors import CheckpointError, ConfigurationError, InputError, NonFiniteInputError
from pipelines.model.snapshot import read_extra
from tests.model.small import check_rows_are_independent, joined_states, run_steps, small_model, stream

KINDS: dict[str, dict[str, Any]] = {
    "one block": {"blocks": 1},
    "one block, lag": {"blocks": 1, "lag": 1},
    "one block, static, class token": {"blocks": 1, "positional": "static", "class_token_block": 1, "norm": "pre"},
    "two blocks": {"blocks": 2},
    "two blocks, static": {"blocks": 2, "positional": "static"},
    "three blocks, class token": {"blocks": 3, "class_token_block": 1},
    "deep": {"blocks": 2, "stacking": "deep"},
    "deep, relative": {"blocks": 2, "stacking": "deep", "positional": "relative"},
    "two blocks, rope": {"blocks": 2, "positional": "rope"},
    "one block, rope, lag": {"blocks": 1, "positional": "rope", "lag": 1},
    "two blocks, alibi": {"blocks": 2, "positional": "alibi"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_step_leaves_the_given_state_alone(kind: str) -> None:
    model = small_model(**KINDS[kind])
    tokens = stream(2, 9)
    with torch.no_grad():
        _, state = model.steps(tokens[:, :7], model.initial_state(2))
        before = [tensor.clone() for tensor in state.tensors()]
        model.step(tokens[:, 7], state)
        model.steps(tokens[:, 7:], state)
    for mine, theirs in zip(state.tensors(), before, strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6, deadline=None)
@given(schedule=st.lists(st.tuples(*[st.booleans()] * 3), min_size=20, max_size=30), reset=st.integers(3, 15))
def test_rows_are_independent(kind: str, schedule: list[tuple[bool, ...]], reset: int) -> None:
    """Three streams that pause at different times, one of which starts again, give what each gives alone."""
    model = small_model(torch.float64, **KINDS[kind])
    tokens = stream(3, len(schedule), torch.float64)
    alone = run_steps(model, tokens)
    check_rows_are_independent(model, tokens, alone, schedule, reset)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_join_and_leave(kind: str) -> None:
    model = small_model(torch.float64, **KINDS[kind])
    tokens = stream(3, 20, torch.float64)
    alone = run_steps(model, tokens)
    with torch.no_grad():
        _, pair = model.steps(tokens[:2, :6], model.initial_state(2))
        trio = joined_states([pair, model.initial_state(1)])
        for t in range(5):
            logits, trio = model.step(torch.stack([tokens[0, 6 + t], tokens[1, 6 + t], tokens[2, t]]), trio)
        torch.testing.assert_close(logits[2], alone[2, 4], rtol=1e-10, atol=1e-10)
        rest = trio.select([2, 0])
        for t in range(5):
            logits, rest = model.step(torch.stack([tokens[2, 5 + t], tokens[0, 11 + t]]), rest)
    torch.testing.assert_close(logits, torch.stack([alone[2, 9], alone[0, 15]]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_snapshot_restores_bit_for_bit(kind: str, tmp_path: Path) -> None:
    model = small_model(**KINDS[kind])
    tokens = stream(2, 14)
    with torch.no_grad():
        _, state = model.steps(tokens[:, :9], model.initial_state(2))
        model.snapshot(state, tmp_path / "state.safetensors")
        again = model.restore(tmp_path / "state.safetensors")
        for t in range(9, 14):
            logits, state = model.step(tokens[:, t], state)
            same, again = model.step(tokens[:, t], again)
            assert torch.equal(logits, same)


def test_snapshots_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    model = small_model()
    model.snapshot(model.initial_state(1), path)
    with pytest.raises(CheckpointError, match="window 4 instead of 5"):
        small_model(window=5).restore(path)
    with pytest.raises(CheckpointError, match="another precision"):
        small_model(torch.float64).restore(path)
    with pytest.raises(InputError, match="no stream state at"):
        model.restore(tmp_path / "missing")
    with safe_open(path, "pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in sorted(file.keys())}
    for change in ({"rows": "1000000000"}, {"rows": "-1"}, {"rows": "0"}, {"version": "x"}, {"config": "{"}):
        save_file(tensors, path, {**metadata, **change})
        with pytest.raises(CheckpointError, match="is damaged"):
            model.restore(path)
    for key in ("rows", "version", "config"):
        save_file(tensors, path, {name: value for name, value in metadata.items() if name != key})
        with pytest.raises(CheckpointError, match=f"does not say its {key}"):
            model.restore(path)
    save_file(tensors, path, {**metadata, "extra": "[]"})
    with pytest.raises(CheckpointError, match="not a JSON object"):
        read_extra(path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(CheckpointError, match="damaged"):
        model.restore(path)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_names_its_row_and_harms_no_other(kind: str, bad: float) -> None:
    model = small_model(torch.float64, **KINDS[kind])
    tokens = stream(3, 12, torch.float64)
    alone = run_steps(model, tokens)
    with torch.no_grad():
        _, state = model.steps(tokens[:, :6], model.initial_state(3))
        token = tokens[:, 6].clone()
        token[1, 2] = bad
        with pytest.raises(NonFiniteInputError, match="batch row 1") as caught:
            model.step_(token, state)
        assert caught.value.rows == [1]
        logits, state = model.step(token, state, torch.tensor([True, False, True]))
        torch.testing.assert_close(logits[[0, 2]], alone[[0, 2], 6], rtol=1e-10, atol=1e-10)
        logits, state = model.step(
            torch.stack([tokens[0, 7], tokens[1, 6], tokens[2, 7]]), state
        )  # row 1 repeats its token
        wanted = torch.stack([alone[0, 7], alone[1, 6], alone[2, 7]])
        torch.testing.assert_close(logits, wanted, rtol=1e-10, atol=1e-10)


def test_large_finite_input_is_accepted() -> None:
    model = small_model(torch.float32)
    tokens = torch.full((1, 6), 3e38)  # its sum overflows, but nothing in it is infinite
    logits, _ = model.step(tokens * torch.tensor([1, 1, 1, 0, 0, 0]) * 1e-30, model.initial_state())
    assert logits.isfinite().all()
    model._check(tokens, 1, None)


def test_wrong_shapes_and_batches_are_refused() -> None:
    model = small_model()
    with pytest.raises(InputError, match="2 streams of width 6"):
        model.step(torch.zeros(2, 5), model.initial_state(2))
    with pytest.raises(InputError, match="2 streams of width 6"):
        model.step(torch.zeros(3, 6), model.initial_state(2))
    with pytest.raises(ConfigurationError, match="at least 1"):
        model.initial_state(0)
    with pytest.raises(InputError, match="no decoder"):
        model.predict(torch.zeros(1, 4, 6))
