"""What a block is told about the places of its rows, where scores depend on them: a bias by age, or a rotation."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipelines.model.attention.retroactive import Fading
from pipelines.model.attention.ring import Cursor
from pipelines.model.attention.window_cursor import WindowCursor
from pipelines.model.positions import age_bias
from pipelines.model.positions.rotary import Rotation, rates, rotation
from pipelines.model.state import AgeTables, RotaryTables, StreamState
from pipelines.model.transformer.config import ModelConfig


class Places(NamedTuple):
    """Nothing, for encodings that are added to tokens."""

    bias: Tensor | None = None  # (B or 1, h, 1, m) added to the scores of m keys
    turn: Rotation | None = None  # of the keys, and of queries of the same rows
    query_turn: Rotation | None = None  # of a query of another row


NOWHERE = Places()
Tables = tuple[Any, ...] | None  # of a state; those of other encodings say nothing here


def place_tables(config: ModelConfig, biases: list[Tensor | None], like: Tensor) -> AgeTables | RotaryTables | None:
    """The constants of a model. biases: the learned bias by age (h, n) of each block, with relative positions."""
    if config.positional == "rope":
        rate = rates(config.head_width, like.device)
        places = torch.arange(config.window, device=like.device).repeat(2)
        return RotaryTables(rate, *rotation(places, rate, like.dtype))
    if config.positional == "alibi":
        slopes = age_bias.alibi_slopes(config.heads, like.device)
        table = age_bias.doubled(age_bias.alibi_bias(slopes, config.window))
        return AgeTables(table.expand(config.blocks, -1, -1), slopes)
    learned = [age_bias.doubled(bias) for bias in biases if bias is not None]
    return AgeTables(torch.stack(learned), like.new_zeros(0, dtype=torch.float64)) if learned else None


def window_places(config: ModelConfig, bias: Tensor | None, length: int, lead: int, like: Tensor) -> Places:
    """A window's `length` tokens in order of time, after `lead` rows of a class token. bias: learned, by age (h, n)."""
    if config.positional == "rope":
        # Only differences count, so a window may begin anywhere.
        places = torch.arange(length, device=like.device).unsqueeze(0)
        return Places(turn=rotation(places, rates(config.head_width, like.device), like.dtype))
    by_age = bias_by_age(config, bias, like)
    return NOWHERE if by_age is None else Places(age_bias.of_window(by_age, length, lead))


def bias_by_age(config: ModelConfig, bias: Tensor | None, like: Tensor) -> Tensor | None:
    """The bias of a block by age (h, n), learned or not; None: there is none."""
    if config.positional != "alibi":
        return bias
    return age_bias.alibi_bias(age_bias.alibi_slopes(config.heads, like.device), config.window).to(like.dtype)


def slot_bias(
    tables: Tables, block: int, cursor: Cursor | WindowCursor, lead: int, dtype: torch.dtype
) -> Tensor | None:
    """The bias (B or 1, h, 1, lead + slots) of what a ring holds, for block 0 … b - 1."""
    if not isinstance(tables, AgeTables):
        return None
    return age_bias.of_slots(cursor.aged(tables.bias[block]), lead).to(dtype)


def fading(tables: Tables, cursor: Cursor) -> Fading | None:
    """What a retroactive block loses to age."""
    if not isinstance(tables, AgeTables):
        return None
    return Fading(tables.slopes, age_bias.of_slots(cursor.aged(tables.bias[0]), 0))


def turn_at(state: StreamState, position: Tensor, dtype: torch.dtype) -> Rotation | None:
    """The turn (…, w) of the tokens that are at these places (B,) or (B, T) of their streams."""
    if not isinstance(state.tables, RotaryTables):
        return None
    offset = state.offset if position.dim() == 1 else state.offset.unsqueeze(1)
    return rotation(offset + position, state.tables.rate, dtype)


def slot_turn(tables: Tables, cursor: Cursor | WindowCursor) -> Rotation | None:
    """The turn (B or 1, slots, w) of all rows in ring order, by their place in the window."""
    if not isinstance(tables, RotaryTables):
        return None
    return Rotation(cursor.rotated(tables.cosine), cursor.rotated(tables.sine))


def row_turn(turn: Rotation | None, cursor: Cursor | WindowCursor, lag: int) -> Rotation | None:
    """Of these turns that of the token `lag` steps ago: (B or 1, w)."""
    return None if turn is None else Rotation(*(cursor.row(part, lag).squeeze(1) for part in turn))
