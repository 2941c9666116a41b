"""A stream that steps alone and in place gives the numbers of one whose state is a value."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from pipelines.costs.counting import count_macs
from pipelines.model import ContinualTransformer
from pipelines.model.linear.packing import with_precision
from pipelines.model.state import StreamState
from pipelines.model.transformer import alone
from tests.model.small import by_value, relative_error, small_model, stream

MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {"positional": "none"},
    "pre-norm, gelu": {"positional": "none", "norm": "pre", "activation": "gelu"},
    "recycling positions": {"positional": "recycling"},
    "no biases": {"positional": "none", "in_projection_bias": False, "out_projection_bias": False},
    "deep": {"positional": "recycling", "blocks": 3, "stacking": "deep"},
}
# What steps by other means, alone or not.
OTHERS: dict[str, dict[str, Any]] = {
    "rope": {"positional": "rope"},
    "relative": {"positional": "relative"},
    "lag": {"positional": "none", "lag": 1},
    "class token": {"positional": "none", "class_token_block": 1},
    "static": {"positional": "static"},
    "two blocks": {"positional": "none", "blocks": 2},
}
LENGTH = 15


@pytest.fixture(autouse=True)
def without_native_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of `test_native.py` would take the steps that are looked at here."""
    monkeypatch.setattr(alone, "kernels", lambda: None)


def in_place(model: ContinualTransformer, tokens: Tensor, state: StreamState) -> Tensor:
    """Logits (T, classes) of tokens (1, T, input_width)."""
    return torch.cat([model.step_(token, state)[0] for token in tokens.unbind(1)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", MODELS)
def test_the_same_numbers(kind: str, dtype: torch.dtype) -> None:
    model = small_model(dtype, **MODELS[kind])
    tokens = stream(1, LENGTH, dtype)
    with torch.inference_mode():
        expected = by_value(model, tokens)
        assert model.encoder._lone is None
        state = model.initial_state(1)
        assert relative_error(in_place(model, tokens, state), expected) <= (1e-5 if dtype == torch.float32 else 1e-12)
        assert model.encoder._lone is not None and model.encoder._lone.state is state
        assert state.position.tolist() == [LENGTH]


@pytest.mark.parametrize("kind", OTHERS)
@torch.inference_mode()
def test_what_it_does_not_know_it_leaves_alone(kind: str) -> None:
    model = small_model(**OTHERS[kind])
    tokens = stream(1, LENGTH)
    assert relative_error(in_place(model, tokens, model.initial_state(1)), by_value(model, tokens)) <= 1e-5
    assert model.encoder._lone is None


@torch.inference_mode()
def test_streams_take_turns_begin_anew_and_wait() -> None:
    model = small_model(positional="none")
    tokens = stream(2, LENGTH)
    expected = [by_value(model, tokens[row : row + 1]) for row in range(2)]
    states = [model.initial_state(1), model.initial_state(1)]
    for row in (0, 1, 0):
        assert relative_error(in_place(model, tokens[row : row + 1], states[row]), expected[row]) <= 1e-5
        waiting = states[row].clone()
        model.step_(tokens[row : row + 1, 0], states[row], torch.tensor([False]))
        assert all(
            torch.equal(mine, before) for mine, before in zip(states[row].tensors(), waiting.tensors(), strict=True)
        )
        model.reset_(states[row], [0])


def test_a_stream_goes_on_with_gradients_and_outside_of_inference_mode() -> None:
    model = small_model(positional="none")
    tokens = stream(1, LENGTH)
    with torch.no_grad():
        expected = by_value(model, tokens)
        state = model.initial_state(1)
        outputs = [in_place(model, tokens[:, :6], state)]
    with torch.inference_mode():
        outputs.append(in_place(model, tokens[:, 6:9], state).clone())
    with torch.no_grad():
        outputs.append(in_place(model, tokens[:, 9:], state))
    assert relative_error(torch.cat(outputs), expected) <= 1e-5
    logits, _ = model.step(tokens[:, 0], state)
    assert logits.requires_grad


@torch.inference_mode()
def test_copies_of_a_model_have_streams_of_their_own() -> None:
    model = small_model(positional="none")
    tokens = stream(1, LENGTH)
    state = model.initial_state(1)
    expected = in_place(model, tokens, state)
    twin = copy.deepcopy(model)
    assert twin.encoder._lone is None
    assert relative_error(in_place(twin, tokens, twin.initial_state(1)), expected) <= 1e-5
    packed = with_precision(model, "float16")
    assert 1e-7 < relative_error(in_place(packed, tokens, packed.initial_state(1)), expected) <= 1e-2
    assert packed.encoder._lone is None


@torch.inference_mode()
def test_a_twin_with_another_lag_steps_alone_only_without() -> None:
    tokens = stream(1, LENGTH)
    for lag, other in ((0, 1), (1, 0)):
        twin = small_model(positional="none", lag=lag).with_lag(other)
        assert relative_error(in_place(twin, tokens, twin.initial_state(1)), by_value(twin, tokens)) <= 1e-5
        assert (twin.encoder._lone is None) == bool(other)


@torch.inference_mode()
def test_a_model_and_its_stream_go_through_a_file_together() -> None:
    model, tokens = small_model(positional="none"), stream(1, LENGTH)
    state = model.initial_state(1)
    in_place(model, tokens[:, :9], state)
    twin, copied = pickle.loads(pickle.dumps((model, state)))
    expected = in_place(model, tokens[:, 9:], state)
    assert relative_error(in_place(twin, tokens[:, 9:], copied), expected) <= 1e-5
    assert copied.position.tolist() == [LENGTH]


@torch.inference_mode()
def test_its_products_are_counted() -> None:
    model = small_model(positional="recycling")
    state = model.initial_state(1)
    in_place(model, stream(1, LENGTH), state)
    token = stream(1, 1)[:, 0]
    alone = count_macs(lambda: model.step_(token, state))
    assert alone.total == count_macs(lambda: model.step(token, state)).total
    assert alone.of("aten.addmv") > 0
