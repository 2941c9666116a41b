"""The MACs of one real step and of one real window, seen by the dispatch-level counter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from pipelines.costs.counting import MacCount, count_macs
from pipelines.model.attention import retroactive
from pipelines.model.attention.ring import LockstepCursor
from pipelines.model.base_config import BaseConfig
from pipelines.model.continual_model import ContinualModel
from pipelines.model.kinds import make_model
from pipelines.model.positions import folding
from pipelines.model.positions.places import fading, turn_at
from pipelines.model.state import FoldedState, RetroactiveState, StreamState
from pipelines.model.transformer.block import Block
from pipelines.model.transformer.model import ContinualTransformer

_SEED = 0


@dataclass(frozen=True)
class Executed:
    """What ran for one step after warm-up, and for the regular model on one window."""

    step: MacCount
    window: MacCount


def build_model(config: BaseConfig) -> ContinualModel:
    """A model with seeded random weights, in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        return make_model(config).eval()


@torch.inference_mode()
def execute(model: ContinualModel) -> Executed:
    """Run and count a step of one stream whose window is full, and a window."""
    state = warmed_up(model)
    step = count_macs(model.step_, random_tokens(model, 1)[:, 0], state)
    return Executed(step, count_macs(model, random_tokens(model, model.config.window)))


@torch.inference_mode()
def warmed_up(model: ContinualModel) -> StreamState:
    """The state of one stream whose window is full of the same token.

    Retroactive attention computes a row anew when the key that dominated it leaves (see `retroactive.py`). That work
    depends on the data and is no part of the steady state; among equal keys none dominates.
    """
    state = model.initial_state()
    token = random_tokens(model, 1)[:, 0]
    if not isinstance(model, ContinualTransformer) or model.config.single_output:
        _, state = model.steps(token.unsqueeze(1).expand(1, model.config.warm_up, -1), state)
        return state
    # Of an exact stack only block 1 remembers anything, so that is all there is to warm up.
    row = model.project_input(token)
    block, first = cast(Block, model.encoder.blocks[0]), state.blocks[0]
    lead = 1 if model.config.class_token_block == 1 else 0
    for position in range(model.config.window):
        cursor = LockstepCursor(position, model.config.window)
        if isinstance(first, FoldedState):
            folding.take_in(block, row, first, cursor)
        elif isinstance(first, RetroactiveState):
            cursor.write_row(first.token, row, lead)
            query, key, value = block.project(row, turn_at(state, state.position, row.dtype))
            retroactive.update_(first, query, key, value, 1.0, cursor, lead, fading(state.tables, cursor))
        state.position.add_(1)
    return state


def random_tokens(model: ContinualModel, count: int) -> Tensor:
    """Seeded tokens (1, count, input_width) of the model's precision."""
    generator = torch.Generator().manual_seed(_SEED)
    tokens = torch.randn(1, count, model.config.input_width, generator=generator)
    return tokens.to(model.device, model.dtype)
