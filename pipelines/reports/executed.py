"""The MACs of one real step and of one real window, seen by the dispatch-level counter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from pipelines.model import folding, retroactive
from pipelines.model.block import Block
from pipelines.model.config import ModelConfig
from pipelines.model.ring import LockstepCursor
from pipelines.model.state import FoldedState, RetroactiveState, StreamState
from pipelines.model.transformer import ContinualTransformer
from pipelines.reports.counting import MacCount, MacCounter, count_macs

# Steps looked at for one in which retroactive attention computes no row anew (see `pipelines/model/retroactive.py`).
_TRIES = 4
_SEED = 0


@dataclass(frozen=True)
class Executed:
    """What ran for one step after warm-up, and for the regular model on one window."""

    step: MacCount
    window: MacCount
    # MACs for each step, on average over those looked at, of rows that retroactive attention computed anew because
    # their error bound had grown too large: work that depends on the data, and is not part of `step`.
    recomputed: float


def build_model(config: ModelConfig) -> ContinualTransformer:
    """A model with seeded random weights, in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return ContinualTransformer(config).eval()


@torch.inference_mode()
def execute(model: ContinualTransformer) -> Executed:
    """Run and count a step of one stream whose window is full, and a window."""
    window = model.config.window
    state = warmed_up(model)
    counts = []
    for token in random_tokens(model, _TRIES if _retroactive(model.config) else 1).unbind(1):
        counter = MacCounter()
        with counter:
            _, state = model.step_(token, state)
        counts.append(counter.count)
    step = min(counts, key=lambda count: count.total)
    recomputed = sum(count.total for count in counts) / len(counts) - step.total
    return Executed(step, count_macs(model, random_tokens(model, window)), recomputed)


@torch.inference_mode()
def warmed_up(model: ContinualTransformer) -> StreamState:
    """The state of one stream whose window is full."""
    state = model.initial_state()
    tokens = random_tokens(model, model.config.window)
    if model.config.single_output:
        for token in tokens.unbind(1):
            _, state = model.step_(token, state)
        return state
    # Of an exact stack only block 1 remembers anything, so that is all there is to warm up.
    rows = model.input_projection(tokens)
    encoder, first = model.encoder, state.blocks[0]
    block = cast(Block, encoder.blocks[0])
    if encoder.positions is not None and encoder.positions.recycling:
        rows = rows + encoder.positions.window(model.config.window, 0, 1)
    lead = 1 if model.config.class_token_block == 1 else 0
    for position, row in enumerate(rows.unbind(1)):
        cursor = LockstepCursor(position, model.config.window)
        if isinstance(first, FoldedState):
            folding.take_in(block, row, first, cursor)
        elif isinstance(first, RetroactiveState):
            cursor.write_row(first.token, row, lead)
            query, key, value = block.project(row)
            retroactive.update_(first, query, key, value, 1.0, cursor, lead)
    state.position.fill_(model.config.window)
    return state


def random_tokens(model: ContinualTransformer, count: int) -> Tensor:
    """Seeded tokens (1, count, input_width) of the model's precision."""
    generator = torch.Generator().manual_seed(_SEED)
    weight = model.input_projection.weight
    tokens = torch.randn(1, count, model.config.input_width, generator=generator)
    return tokens.to(weight.device, weight.dtype)


def _retroactive(config: ModelConfig) -> bool:
    return config.positional != "static" and not config.single_output
