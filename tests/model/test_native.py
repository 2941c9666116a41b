"""Steps in C give the numbers of the steps that they stand for, with every instruction set that this machine has."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipelines.costs.counting import count_macs
from pipelines.errors import InputError, NonFiniteInputError
from pipelines.model import ContinualTransformer
from pipelines.model.linear import packing
from pipelines.model.linear.packing import with_precision
from pipelines.model.native import library
from pipelines.model.native.library import LIBRARY, SETS, Kernels
from pipelines.model.state import SingleOutputState
from pipelines.model.transformer import alone
from pipelines.model.transformer.native_stream import SMALL_BLOCK, NativeStream
from tests.model.small import by_value, relative_error, small_model, stream

MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {"positional": "none"},
    "pre-norm, gelu": {"positional": "none", "norm": "pre", "activation": "gelu"},
    "recycling, biases": {"positional": "recycling", "in_projection_bias": True, "out_projection_bias": True},
    "deep": {"positional": "recycling", "blocks": 3, "stacking": "deep"},
    "relative, lag": {"positional": "relative", "blocks": 2, "stacking": "deep", "lag": 2},
    "relative, pre-norm, lag": {"positional": "relative", "norm": "pre", "lag": 3},
    "alibi": {"positional": "alibi"},
    "a reading": {"positional": "none", "reading": 0.6},
    "a reading with evidence": {"positional": "none", "reading": 0.6, "reading_evidence": True},
    "two blocks": {"positional": "none", "blocks": 2, "out_projection_bias": True},
    "three blocks, pre-norm, gelu": {"positional": "recycling", "blocks": 3, "norm": "pre", "activation": "gelu"},
    "odd sizes": {"positional": "relative", "width": 42, "heads": 3, "feed_forward": 37, "window": 5},
    "odd sizes, two blocks": {"positional": "none", "blocks": 2, "width": 42, "heads": 3, "feed_forward": 37},
    # Large enough for float16 and int8 weights, and for the products that ask for their weights ahead.
    "large": {"positional": "none", "width": 520, "heads": 4, "feed_forward": 513, "window": 9},
    "large, two blocks": {"positional": "none", "blocks": 2, "width": 264, "heads": 4, "feed_forward": 300},
}
NOT_THESE: dict[str, dict[str, Any]] = {
    "rope": {"positional": "rope"},
    "class token": {"positional": "none", "class_token_block": 1},
    "static": {"positional": "static"},
    "two blocks, alibi": {"positional": "alibi", "blocks": 2},
    "two blocks, lag": {"positional": "none", "blocks": 2, "lag": 1},
}
LENGTH = 40


@pytest.fixture(params=SETS)
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernels:
    """The kernels of one instruction set, as what takes steps here."""
    if not LIBRARY.is_file():
        assert "COTRANS_CI" not in os.environ, (
            "the C kernels were not compiled: gcc is missing, or hatch_build.py failed"
        )
        pytest.skip("no C kernels here: they are compiled when cotrans is installed beside a C compiler")
    opened = ctypes.CDLL(str(LIBRARY))
    if not 0 <= opened.cotrans_processor() <= SETS.index(request.param):
        pytest.skip(f"this processor has no {request.param}")
    kernels = library.functions(opened, request.param)
    monkeypatch.setattr(alone, "kernels", lambda: kernels)
    return kernels


def in_place(model: ContinualTransformer, tokens: Tensor) -> Tensor:
    """Logits (T, classes) of tokens (1, T, input_width), by the step that owns its state."""
    state = model.initial_state(1)
    return torch.cat([model.step_(token, state)[0] for token in tokens.unbind(1)])


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
@pytest.mark.parametrize("kind", MODELS)
@torch.inference_mode()
def test_the_same_numbers(kind: str, precision: Any, native: Kernels) -> None:
    model = with_precision(small_model(**MODELS[kind]), precision)
    tokens = stream(1, LENGTH)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        mine = in_place(model, tokens)
    finally:
        torch.set_num_threads(before)
    assert isinstance(model.encoder._lone, NativeStream)
    # int8: a row that lies between two steps may go to either.
    assert relative_error(mine, by_value(model, tokens)) <= (2e-3 if precision == "int8" else 1e-5)


@torch.inference_mode()
def test_rows_of_seven_bits(native: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """As weights are packed on processors without VNNI."""
    monkeypatch.setattr(packing, "is_better_here", lambda: True)
    model = with_precision(small_model(**MODELS["large"]), "int8")
    tokens = stream(1, LENGTH)
    assert relative_error(in_place(model, tokens), by_value(model, tokens)) <= 2e-3
    assert isinstance(model.encoder._lone, NativeStream)


@pytest.mark.parametrize("kind", NOT_THESE)
@torch.inference_mode()
def test_what_they_do_not_know_they_leave_alone(kind: str, native: Kernels) -> None:
    model = small_model(**NOT_THESE[kind])
    tokens = stream(1, LENGTH)
    assert relative_error(in_place(model, tokens), by_value(model, tokens)) <= 1e-5
    assert not isinstance(model.encoder._lone, NativeStream)


@torch.inference_mode()
def test_wide_float32_layers_are_left_to_several_threads(native: Kernels) -> None:
    model = small_model(positional="none", width=1024, feed_forward=1024)
    assert sum(layer.numel() for layer in model.encoder.blocks[0].parameters()) > SMALL_BLOCK
    before = torch.get_num_threads()
    try:
        for threads, alone_in_c in ((2, False), (1, True)):
            torch.set_num_threads(threads)
            in_place(model, stream(1, 8))
            assert isinstance(model.encoder._lone, NativeStream) is alone_in_c
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("blocks", [1, 2])
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_any_input(blocks: int, data: st.DataObject) -> None:
    """Keys that take all of a row's mass and leave again, huge and tiny tokens, tokens that come twice."""
    if library.kernels() is None:
        pytest.skip("no C kernels here")
    model = small_model(positional="none", blocks=blocks, window=data.draw(st.integers(2, 9)))
    scales = data.draw(st.lists(st.sampled_from([0.0, 1e-20, 1.0, 30.0, 1e4, 1e8]), min_size=30, max_size=30))
    tokens = stream(1, 30) * torch.tensor(scales).view(1, -1, 1)
    with torch.inference_mode():
        mine = in_place(model, tokens)
        assert isinstance(model.encoder._lone, NativeStream)
        window = model.config.window
        for last in range(window, 30):
            regular = model(tokens[:, last + 1 - window : last + 1])
            assert relative_error(mine[last : last + 1], regular) <= 2e-5


@torch.inference_mode()
def test_what_is_not_finite_is_not_finite_until_it_has_left(native: Kernels) -> None:
    one, two = (small_model(positional="none", blocks=blocks, input_width=6) for blocks in (1, 2))
    large = with_precision(small_model(**MODELS["large"]), "int8")
    for model in (one, two, large):
        tokens = stream(1, LENGTH)
        tokens[:, 20] = 3e38 * tokens[:, 20].sign()  # finite, and too large to compute with
        mine, expected = in_place(model, tokens), by_value(model, tokens)
        finite = expected.isfinite().all(-1)  # where infinities meet, the order of a sum decides whether it is one
        assert not finite.all() and finite[-1] and mine[finite].isfinite().all()
        assert model is not large or not mine[~finite].isfinite().all(-1).any()  # int8 rows have no NaN to show
        assert relative_error(mine[finite], expected[finite]) <= (1e-5 if model is not large else 2e-3)


@pytest.mark.parametrize("change", ["moved", "assigned", "loaded"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
@torch.no_grad()
def test_other_weights_are_seen(change: str, precision: Any, native: Kernels) -> None:
    """PyTorch frees those of a model that is moved, though the parameters stay."""
    model = with_precision(small_model(**MODELS["large"]), precision)
    other = small_model(**MODELS["large"])
    for parameter in other.parameters():
        parameter.mul_(0.5)
    tokens, state = stream(1, 12), model.initial_state(1)
    for token in tokens.unbind(1):
        model.step_(token, state)
    if change == "moved":
        model.double().float()
    else:
        model.load_state_dict(with_precision(other, precision).state_dict(), assign=change == "assigned")
    for token in tokens.unbind(1):
        expected = model.step(token, state)[0]
        assert relative_error(model.step_(token, state)[0], expected) <= (2e-3 if precision == "int8" else 1e-5)


@torch.inference_mode()
def test_states_that_lie_otherwise_are_left_alone(native: Kernels) -> None:
    model, tokens = small_model(positional="alibi"), stream(2, 12)
    expected = torch.cat([by_value(model, tokens[row : row + 1])[-1:] for row in range(2)])
    gaps = model.initial_state(4).map(lambda tensor: tensor[::2])
    half = gaps._replace(position=torch.zeros(4, dtype=torch.long)[::2], blocks=model.initial_state(2).blocks)
    for state in (gaps, half):
        for token in tokens.unbind(1):
            logits = model.step_some_(token, state, [0, 1])
        assert relative_error(logits, expected) <= 1e-5 and model.encoder._lone is None
    smaller = small_model(positional="alibi", window=3).initial_state(1)
    halves = small_model(positional="alibi").half().initial_state(1)
    tables = model.initial_state(1)._replace(tables=smaller.tables)
    for state in (smaller, halves, tables):
        model.expect(state)
        assert model.encoder._lone is None


@torch.inference_mode()
def test_no_other_rows_than_those_of_the_state(native: Kernels) -> None:
    model = small_model(positional="none")
    state, tokens = model.initial_state(4), stream(2, 1)[:, 0]
    for streams in ([-1, 0], [0, 4], [1, 1]):
        model.expect(state)
        with pytest.raises(InputError, match="different ones of a state of 4"):
            model.step_some_(tokens, state, streams)


@torch.inference_mode()
def test_scratch_has_its_size_whatever_the_default_is(native: Kernels) -> None:
    for kind in ("post-norm", "two blocks"):
        model = small_model(**MODELS[kind])
        torch.set_default_dtype(torch.bfloat16)
        try:
            with torch.device("meta"):
                state = model.initial_state(1)
                model.expect(state)
        finally:
            torch.set_default_dtype(torch.float32)
        assert isinstance(model.encoder._lone, NativeStream)
        (part,) = model.encoder._lone._blocks
        held = [*part._described._held, *vars(getattr(part, "_finish", part)).values()]  # type: ignore[attr-defined]
        assert not any(isinstance(tensor, Tensor) and tensor.dtype == torch.bfloat16 for tensor in held)


@torch.inference_mode()
def test_streams_take_turns_and_go_on_from_a_copy(native: Kernels) -> None:
    for kind in ("relative, lag", "two blocks"):
        model = small_model(**MODELS[kind])
        tokens = stream(2, LENGTH)
        expected = [by_value(model, tokens[row : row + 1]) for row in range(2)]
        states = [model.initial_state(1) for _ in range(2)]
        for place in range(LENGTH):
            for row in range(2):
                if place == 25:
                    states[row] = states[row].clone()
                logits, _ = model.step_(tokens[row : row + 1, place], states[row])
                assert relative_error(logits, expected[row][place : place + 1]) <= 1e-5


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("kind", [*MODELS, *NOT_THESE])
@torch.inference_mode()
def test_some_streams_of_a_batch(kind: str, precision: Any, native: Kernels) -> None:
    """Each at its own time, some warming up and some far past their window, by whatever means a model has."""
    model = with_precision(small_model(**{**MODELS, **NOT_THESE}[kind]), precision)
    tokens = stream(5, LENGTH)
    expected = [by_value(model, tokens[row : row + 1]) for row in range(5)]
    state, seen = model.initial_state(5), [0] * 5
    chosen = torch.Generator().manual_seed(1)
    for _ in range(60):
        streams = [row for row in torch.randperm(5, generator=chosen).tolist() if seen[row] < LENGTH][:2]
        logits = model.step_some_(torch.stack([tokens[row, seen[row]] for row in streams]), state, streams)
        for row, answer in zip(streams, logits, strict=True):
            wanted = expected[row][seen[row]].unsqueeze(0)
            assert relative_error(answer.unsqueeze(0), wanted) <= (1e-2 if precision == "int8" else 1e-5)
            seen[row] += 1
    assert state.position.tolist() == seen and len(set(seen)) > 1
    if isinstance(state.blocks[0], SingleOutputState) and model.reading is None and kind in MODELS:
        assert isinstance(model.encoder._lone, NativeStream) and model.encoder._lone.state is state


@torch.inference_mode()
def test_a_stream_of_a_batch_that_is_not_finite_is_named(native: Kernels) -> None:
    model = small_model(positional="none")
    state, tokens = model.initial_state(4), stream(2, 1)[:, 0]
    tokens[1, 0] = torch.nan
    with pytest.raises(NonFiniteInputError) as raised:
        model.step_some_(tokens, state, [0, 3])
    assert raised.value.rows == [3] and state.position.tolist() == [0, 0, 0, 0]


@torch.inference_mode()
def test_operators_are_counted_all_the_same(native: Kernels) -> None:
    model = small_model(positional="none")
    state = model.initial_state(1)
    for token in stream(1, 10).unbind(1):
        model.step_(token, state)
    assert isinstance(model.encoder._lone, NativeStream)
    token = stream(1, 1)[:, 0]
    alone_ = count_macs(lambda: model.step_(token, state))
    assert alone_.total == count_macs(lambda: model.step(token, state)).total > 0


def test_a_library_of_other_sources_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if library.kernels() is None:
        pytest.skip("no C kernels here")
    library.kernels.cache_clear()
    try:
        monkeypatch.setattr(library, "sources_digest", lambda: "0" * 16)
        assert library.kernels() is None
        library.kernels.cache_clear()
        monkeypatch.undo()
        monkeypatch.setenv(library.SWITCH, "0")
        assert library.kernels() is None
        library.kernels.cache_clear()
        monkeypatch.undo()
        broken = tmp_path / "kernels.so"
        broken.write_bytes(b"no library")
        monkeypatch.setattr(library, "LIBRARY", broken)
        assert library.kernels() is None
    finally:
        monkeypatch.undo()
        library.kernels.cache_clear()
