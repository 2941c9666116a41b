"""Retroactive attention is right for every finite input, and the work it does is what the paper promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipelines.model import RegularAttention, RetroactiveAttention, SingleOutputAttention
from pipelines.model.attention import retroactive
from pipelines.model.attention.banded import attend
from pipelines.model.attention.ring import LockstepCursor
from pipelines.model.positions import age_bias

HEADS, WIDTH = 2, 8
Inputs = tuple[Tensor, Tensor, Tensor]


def plain(q: Tensor, k: Tensor, v: Tensor) -> Inputs:
    return q, k, v


def large_logits(q: Tensor, k: Tensor, v: Tensor) -> Inputs:
    """Logits up to 1e4 and more."""
    return q * 60, k * 60, v


def dominating_keys(q: Tensor, k: Tensor, v: Tensor) -> Inputs:
    """Now and then a key takes all of a row's mass, and then leaves the window."""
    k = k.clone()
    k[:, :, 20::23] *= 100
    return q, k, v


def constant(q: Tensor, k: Tensor, v: Tensor) -> Inputs:
    return q[:, :, :1].expand_as(q), k[:, :, :1].expand_as(k), v[:, :, :1].expand_as(v)


def jumps(q: Tensor, k: Tensor, v: Tensor) -> Inputs:
    q, v = q.clone(), v.clone()
    v[:, :, 30::17] *= 1e20
    q[:, :, 50::19] *= 1e4
    return q, k, v


def silence(q: Tensor, k: Tensor, v: Tensor) -> Inputs:
    q, k, v = q.clone(), k.clone(), v.clone()
    for x in (q, k, v):
        x[:, :, 40:80] = 0
    v[:, :, 39] = 1e30
    return q, k, v


def ends_of_the_range(q: Tensor, k: Tensor, v: Tensor) -> Inputs:
    return q * 1e-30, k * 1e25, v * 1e35


@pytest.mark.parametrize("change", [plain, large_logits, dominating_keys, constant, jumps, silence, ends_of_the_range])
@pytest.mark.parametrize("window", [1, 16, 64])
def test_error_is_that_of_regular_attention(change: Callable[..., Inputs], window: int) -> None:
    inputs = torch.randn(3, 1, HEADS, 200, WIDTH, generator=torch.Generator().manual_seed(0)).unbind(0)
    assert_as_good_as_regular(*change(*inputs), window)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    window=st.integers(1, 20),
    scales=st.lists(st.sampled_from([0.0, 1e-3, 1.0, 10.0, 1e3, 1e5]), min_size=4, max_size=12),
)
def test_any_jumps_of_scale(seed: int, window: int, scales: list[float]) -> None:
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randn(3, 1, HEADS, 7, WIDTH, generator=generator) * scale**0.5 for scale in scales]
    assert_as_good_as_regular(*torch.cat(parts, dim=3).unbind(0), window)


def assert_as_good_as_regular(query: Tensor, key: Tensor, value: Tensor, window: int) -> None:
    """At every step, the error is at most 3 times that of float32 regular attention, plus 1e-6 relative."""
    attention, regular = RetroactiveAttention(window, HEADS, WIDTH), RegularAttention()
    state = attention.initial_state()
    for t in range(query.shape[2]):
        rows, state = attention.step(query[:, :, t], key[:, :, t], value[:, :, t], state)
        part = [x[:, :, max(0, t + 1 - window) : t + 1] for x in (query, key, value)]
        exact = regular(*(x.double() for x in part))
        size = exact.abs().amax(-1)
        error = (rows - exact).abs().amax(-1)
        allowed = 3 * (regular(*part) - exact).abs().nan_to_num(posinf=0).amax(-1) + 1e-6 * size
        assert rows.isfinite().all(), t
        assert (error <= allowed).all(), t


@pytest.mark.parametrize("change", [plain, large_logits, dominating_keys, jumps, silence])
@pytest.mark.parametrize("window", [1, 16])
def test_weights_that_fade_are_as_good(change: Callable[..., Inputs], window: int) -> None:
    """A linear penalty of age: every row fades, at every step, and single keys dominate and leave."""
    inputs = torch.randn(3, 1, HEADS, 120, WIDTH, generator=torch.Generator().manual_seed(0)).unbind(0)
    query, key, value = change(*inputs)
    slopes = torch.tensor([0.5, 0.03], dtype=torch.float64)
    table = age_bias.doubled(age_bias.alibi_bias(slopes, window))
    state = retroactive.empty_state(1, HEADS, window, WIDTH, query)
    for t in range(query.shape[2]):
        cursor = LockstepCursor(t, window)
        fading = retroactive.Fading(slopes, age_bias.of_slots(cursor.aged(table), 0))
        token = (query[:, :, t], key[:, :, t], value[:, :, t])
        rows = retroactive.update_(state, *token, WIDTH**-0.5, cursor, 0, fading)
        first = max(0, t + 1 - window)
        order = [first + (slot - first) % window for slot in range(t + 1 - first)]  # the tokens of the slots
        part = [x[:, :, order] for x in (query, key, value)]
        penalty = -slopes.view(1, -1, 1, 1) * (t - torch.tensor(order))
        exact = attend(part[0].double() * WIDTH**-0.5, *(x.double() for x in part[1:]), bias=penalty)
        single = attend(part[0] * WIDTH**-0.5, *part[1:], bias=penalty.float())
        allowed = 3 * (single - exact).abs().nan_to_num(posinf=0).amax(-1) + 1e-6 * exact.abs().amax(-1)
        assert rows.isfinite().all(), t
        assert ((rows - exact).abs().amax(-1) <= allowed).all(), t


def test_rows_of_several_streams() -> None:
    query, key, value = torch.randn(3, 4, HEADS, 30, WIDTH, dtype=torch.float64).unbind(0)
    attention = RetroactiveAttention(7, HEADS, WIDTH)
    single = SingleOutputAttention(7, HEADS, WIDTH)
    state, single_state = attention.initial_state(4, torch.float64), single.initial_state(4, torch.float64)
    for t in range(30):
        rows, state = attention.step(query[:, :, t], key[:, :, t], value[:, :, t], state)
        newest, single_state = single.step(query[:, :, t], key[:, :, t], value[:, :, t], single_state)
        part = [x[:, :, max(0, t - 6) : t + 1] for x in (query, key, value)]
        torch.testing.assert_close(rows, attention(*part), rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(newest, single(*part), rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(newest, rows[:, :, -1], rtol=1e-11, atol=1e-11)
