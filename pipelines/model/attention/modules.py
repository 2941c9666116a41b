"""The three attentions of the paper on their own: regular, retroactive and single-output, without projections.

Each has `forward(query, key, value)` on a whole window and, but for the regular one, `step(query, key, value, state)`
on one token, where query, key and value are (B, h, w) and w is the width of a head. Queries need no scaling.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipelines.model.attention import retroactive
from pipelines.model.attention.banded import attend, attend_one
from pipelines.model.attention.ring import cursor_for
from pipelines.model.state import RetroactiveState, SingleOutputState, map_tensors


class AttentionState(NamedTuple):
    """The state of a single attention."""

    position: Tensor  # (B,) tokens seen so far
    rings: SingleOutputState | RetroactiveState


class RegularAttention(nn.Module):
    """Every row of a window from every row: O(n²d)."""

    def __init__(self, rows: int | None = None) -> None:
        """rows: queries at a time, which caps the memory; None: all."""
        super().__init__()
        self.rows = rows

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """(B, h, n, w) three times to (B, h, n, w)."""
        return attend(query / math.sqrt(query.shape[-1]), key, value, rows=self.rows)


class SingleOutputAttention(nn.Module):
    """The newest row from the last n tokens: O(nd) for each."""

    def __init__(self, window: int, heads: int, width: int) -> None:
        super().__init__()
        self.window, self.heads, self.width = window, heads, width

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """(B, h, n, w) three times to the newest row (B, h, w)."""
        return attend_one(query[:, :, -1] / math.sqrt(self.width), key, value)

    def initial_state(self, batch_size: int = 1, dtype: torch.dtype = torch.float32) -> AttentionState:
        ring = torch.zeros(batch_size, self.heads, self.window, self.width, dtype=dtype)
        recent = torch.zeros(batch_size, 0, self.heads * self.width, dtype=dtype)
        return AttentionState(
            torch.zeros(batch_size, dtype=torch.long), SingleOutputState(ring, torch.zeros_like(ring), recent)
        )

    def step(self, query: Tensor, key: Tensor, value: Tensor, state: AttentionState) -> tuple[Tensor, AttentionState]:
        """(B, h, w) three times to the newest row (B, h, w)."""
        state = map_tensors(Tensor.clone, state)
        cursor = cursor_for(state.position, self.window, None)
        cursor.write(state.rings.key, key)
        cursor.write(state.rings.value, value)
        keys, values = cursor.occupied(state.rings.key), cursor.occupied(state.rings.value)
        output = attend_one(query / math.sqrt(self.width), keys, values, cursor.mask())
        return output, state._replace(position=state.position + 1)


class RetroactiveAttention(nn.Module):
    """All n rows, brought up to date by each token: O(nd) for each."""

    def __init__(self, window: int, heads: int, width: int) -> None:
        super().__init__()
        self.window, self.heads, self.width = window, heads, width

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """(B, h, n, w) three times to (B, h, n, w)."""
        return attend(query / math.sqrt(self.width), key, value)

    def initial_state(self, batch_size: int = 1, dtype: torch.dtype = torch.float32) -> AttentionState:
        like = torch.zeros(0, dtype=dtype)
        rings = retroactive.empty_state(batch_size, self.heads, self.window, self.width, like)
        return AttentionState(torch.zeros(batch_size, dtype=torch.long), rings)

    def step(self, query: Tensor, key: Tensor, value: Tensor, state: AttentionState) -> tuple[Tensor, AttentionState]:
        """(B, h, w) three times to all rows (B, h, min(t, n), w), the oldest token's first.

        Streams of one batch must be in step here, so that they have the same number of rows.
        """
        state = map_tensors(Tensor.clone, state)
        assert isinstance(state.rings, RetroactiveState)
        cursor = cursor_for(state.position, self.window, None)
        scale = 1 / math.sqrt(self.width)
        output = retroactive.update_(state.rings, query, key, value, scale, cursor, lead=0).to(query.dtype)
        oldest = int(state.position[0]) + 1
        state = state._replace(position=state.position + 1)
        return (torch.roll(output, -oldest, dims=2) if oldest > self.window else output), state
