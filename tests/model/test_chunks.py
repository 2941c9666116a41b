"""`steps` over any partition of a stream equals `step` one by one, state included; deep stacks equal their band."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipelines.model import ContinualTransformer
from pipelines.model.state import StreamState
from tests.model.small import POSITIONAL, joined_states, run_steps, small_model, stream

DECODER = {"decoder_blocks": 1, "decoder_queries": 2, "decoder_heads": 2, "decoder_feed_forward": 8}
KINDS: dict[str, dict[str, Any]] = {
    "one block": {"blocks": 1},
    "one block, cyclic": {"blocks": 1, "encoding": "cyclic"},
    "one block, class token": {"blocks": 1, "class_token_block": 1},
    "one block, lag": {"blocks": 1, "lag": 2},
    "one block, static": {"blocks": 1, "positional": "static", "norm": "pre"},
    "one block, relative": {"blocks": 1, "positional": "relative"},
    "one block, relative, class token": {"blocks": 1, "positional": "relative", "class_token_block": 1},
    "one block, rope": {"blocks": 1, "positional": "rope"},
    "one block, rope, lag": {"blocks": 1, "positional": "rope", "lag": 2},
    "one block, alibi, lag": {"blocks": 1, "positional": "alibi", "lag": 2},
    "two blocks": {"blocks": 2},
    "two blocks, rope": {"blocks": 2, "positional": "rope"},
    "two blocks, alibi": {"blocks": 2, "positional": "alibi"},
    "three blocks, class token at 2": {"blocks": 3, "class_token_block": 2},
    "decoder": {"blocks": 1, "positional": "static", **DECODER},
    "deep": {"blocks": 3, "stacking": "deep"},
    "deep, lag": {"blocks": 2, "stacking": "deep", "lag": 3, "norm": "pre"},
    "deep, class token": {"blocks": 2, "stacking": "deep", "class_token_block": 2},
    "deep, static": {"blocks": 2, "stacking": "deep", "positional": "static"},
    "deep, relative": {"blocks": 3, "stacking": "deep", "positional": "relative", "norm": "pre"},
    "deep, rope, lag": {"blocks": 2, "stacking": "deep", "positional": "rope", "lag": 1},
    "deep, alibi, class token": {"blocks": 2, "stacking": "deep", "positional": "alibi", "class_token_block": 2},
}
LENGTH = 41


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.integers(0, LENGTH), max_size=8), batch=st.integers(1, 3))
def test_any_partition(kind: str, cuts: list[int], batch: int) -> None:
    model = small_model(torch.float64, **KINDS[kind])
    tokens = stream(batch, LENGTH, torch.float64)
    edges = [0, *sorted(cuts), LENGTH]
    chunked, stepped = model.initial_state(batch), model.initial_state(batch)
    outputs = []
    with torch.no_grad():
        for first, last in itertools.pairwise(edges):
            logits, chunked = model.steps(tokens[:, first:last], chunked)
            outputs.append(logits)
        for token in tokens.unbind(1):
            _, stepped = model.step(token, stepped)
    torch.testing.assert_close(torch.cat(outputs, dim=1), run_steps(model, tokens), rtol=1e-10, atol=1e-10)
    for mine, theirs in zip(chunked.tensors(), stepped.tensors(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "kind",
    [
        "one block",
        "one block, class token",
        "one block, lag",
        "deep, class token",
        "deep, relative",
        "deep, rope, lag",
        "deep, alibi, class token",
    ],
)
@pytest.mark.parametrize("length", [5, 70])
def test_streams_at_different_places(kind: str, length: int) -> None:
    """Rows of one batch that have seen nothing, a part of a window, and more than one; one and several groups."""
    model = small_model(torch.float64, **KINDS[kind])
    tokens = stream(3, length, torch.float64)
    before = stream(3, 30, torch.float64)
    with torch.no_grad():
        states = [model.initial_state(1) for _ in range(3)]
        for row, seen in enumerate((0, 3, 30)):
            _, states[row] = model.steps(before[row : row + 1, :seen], states[row])
        expected = [
            run_steps_from(model, tokens[row : row + 1], state)
            for row, state in enumerate(map(StreamState.clone, states))
        ]
        logits, state = model.steps(tokens, joined_states(states))
    torch.testing.assert_close(logits, torch.cat([part for part, _ in expected]), rtol=1e-10, atol=1e-10)
    joined = joined_states([after for _, after in expected])
    for mine, theirs in zip(state.tensors(), joined.tensors(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


def run_steps_from(model: ContinualTransformer, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
    outputs = []
    for token in tokens.unbind(1):
        logits, state = model.step(token, state)
        outputs.append(logits)
    return torch.stack(outputs, dim=1), state


def test_gradients_of_a_decoder_through_steps() -> None:
    model = small_model(torch.float64, blocks=1, positional="static", **DECODER)
    tokens = stream(1, 12, torch.float64)
    logits, _ = model.steps(tokens, model.initial_state())
    logits[:, -1].sum().backward()
    chunked = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    model(tokens[:, -model.config.window :]).sum().backward()
    for mine, parameter in zip(chunked, model.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-9, atol=1e-11)


def test_a_long_chunk_is_done_in_parts() -> None:
    model = small_model(torch.float64, blocks=2, stacking="deep")
    tokens = stream(1, 2_500, torch.float64)
    with torch.no_grad():
        logits, _ = model.steps(tokens, model.initial_state())
    torch.testing.assert_close(logits[:, -30:], run_steps(model, tokens)[:, -30:], rtol=1e-10, atol=1e-10)


def turned(rows: Tensor) -> Tensor:
    """Rotary positions as complex numbers: rows (B, T, w) times e^(i · index · angle), w / 2 of them."""
    pairs = rows.shape[-1] // 2
    angle = torch.tensor([10_000 ** (-pair / pairs) for pair in range(pairs)], dtype=torch.float64)
    # The angles are whole steps of which a full turn has 2³⁰.
    angle = torch.round(angle / math.tau * 2**30) * math.tau / 2**30
    index = torch.arange(rows.shape[1], dtype=torch.float64).unsqueeze(1)
    product = torch.complex(rows[..., :pairs], rows[..., pairs:]) * torch.polar(torch.ones(1).double(), index * angle)
    return torch.cat([product.real, product.imag], dim=-1)


def banded_forward(model: ContinualTransformer, tokens: Tensor) -> Tensor:
    """A deep stack written out independently: full scores of the whole sequence, masked to the band."""
    config, encoder = model.config, model.encoder
    length = tokens.shape[1]
    rows = model.input_projection(tokens)
    if encoder.positions is not None:
        rows = rows + encoder.positions.table[torch.arange(length) % config.position_count]
    age = torch.arange(length).unsqueeze(1) - torch.arange(length)
    band = (age >= 0) & (age < config.window)
    for block in encoder.blocks:
        source = block.attention_norm(rows) if config.norm == "pre" else rows
        query, key, value = block.in_projection(source).chunk(3, dim=-1)
        heads = []
        for head, (q, k, v) in enumerate(
            zip(*(x.split(config.head_width, dim=-1) for x in (query, key, value)), strict=True)
        ):
            if config.positional == "rope":
                q, k = turned(q), turned(k)
            scores = q @ k.transpose(1, 2) / math.sqrt(config.head_width)
            if config.positional == "relative":
                scores = scores + block.age_bias[head][age.clamp(0, config.window - 1)]
            elif config.positional == "alibi":
                scores = scores - 2 ** (-8 * (head + 1) / config.heads) * age
            scores = scores.masked_fill(~band, -math.inf)
            heads.append(scores.softmax(dim=-1) @ v)
        rows = rows + block.out_projection(torch.cat(heads, dim=-1))
        if config.norm == "post":
            rows = block.attention_norm(rows)
        source = block.feed_forward_norm(rows) if config.norm == "pre" else rows
        rows = rows + block.contract(torch.relu(block.expand(source)))
        if config.norm == "post":
            rows = block.feed_forward_norm(rows)
    return model.classifier(model.final_norm(rows))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positional", ["none", "learned n", "cyclic 2n-1", "relative", "rope", "alibi"])
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_deep_stack_equals_its_banded_forward(blocks: int, positional: str, norm: str) -> None:
    model = small_model(torch.float64, blocks=blocks, stacking="deep", norm=norm, **POSITIONAL[positional])
    tokens = stream(2, 27, torch.float64)
    with torch.no_grad():
        wanted = banded_forward(model, tokens)
        torch.testing.assert_close(run_steps(model, tokens), wanted, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(model(tokens), wanted[:, -1], rtol=1e-10, atol=1e-10)
