"""LSTR's decoder: the rows of the work memory look at one another and at the encoded long memory.

Positions change at every step, but a projection of row and position is the sum of both (`folding.py`): of the first
self-attention, and of every cross-attention that looks at the work memory itself, only the newest frame is projected.
Of the last layer only the newest row is computed, and nothing that it looks at is projected (`lstr_layer.py`).
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.model.lstr.config import LstrConfig
from pipelines.model.lstr.layer import MemoryAttention, MemoryLayer


class DecoderTables(NamedTuple):
    """Constants of the weights: what positions (and biases) add to the work memory."""

    row: Tensor  # (W, d)
    projected: Tensor  # (W, c)


class LstrDecoder(nn.Module):
    """The work memory and the encoded long memory in, the newest row out."""

    def __init__(self, config: LstrConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(MemoryLayer(config) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.width) if config.decoder_norm else None
        self._layers = cast("tuple[MemoryLayer, ...]", tuple(self.layers))

    def forward(self, rows: Tensor, memory: Tensor) -> Tensor:
        """The regular decoder: rows (B, m, d) with their positions and memory (B, n, d) to the last row (B, d)."""
        later = _later(rows.shape[1], rows)
        seen = None
        if self.config.include_work:
            seen = F.pad(later, (memory.shape[1], 0))
            memory = torch.cat([memory, rows], dim=1)
        for layer in self._layers:
            rows = layer(rows, memory, later, seen)
        return self._normed(rows[:, -1])

    def tables(self, positions: Tensor) -> DecoderTables:
        """The constants. positions: of the work memory, (W, d)."""
        biases = [attention.in_projection.bias[first:] for attention, first in self._projections()]
        return DecoderTables(positions, self.project(positions) + torch.cat([positions.new_zeros(0), *biases]))

    def project(self, rows: Tensor) -> Tensor:
        """What is kept of frames (…, d) beside themselves, without position and bias: (…, c)."""
        parts = [F.linear(rows, attention.in_projection.weight[first:]) for attention, first in self._projections()]
        return torch.cat(parts, dim=-1) if parts else rows[..., :0]

    def newest(self, memory: Tensor, window: Tensor, projected: Tensor, newest: Tensor) -> Tensor:
        """One row of the work memory (N, W, d), whose projections are (N, W, c), as `forward` gives it: (N, d).

        newest: (N,) which row. Those after it mean nothing; no row before it looks at them.
        """
        config = self.config
        later = _later(config.work_samples, window)
        seen = F.pad(later, (memory.shape[1], 0)) if config.include_work else None
        rows = window
        parts = torch.split(projected, config.width, dim=-1)
        for index, layer in enumerate(self._layers[:-1]):
            own, cross = layer.self_attention, layer.memory_attention
            if index == 0:
                query, key, value = (own.split(part) for part in parts[:3])
                attended = own.attend(query * own.scale, key, value, later)
            else:
                attended = own(rows, rows, later)
            rows = layer.after_self(rows, attended)
            key, value = cross.key_value(memory)
            if config.include_work:
                work_key, work_value = (cross.split(part) for part in parts[3 + 2 * index : 5 + 2 * index])
                key, value = torch.cat([key, work_key], dim=2), torch.cat([value, work_value], dim=2)
            rows = layer.after_cross(rows, cross.attend(cross.query(rows), key, value, seen))
            rows = layer.feed_forward(rows)
        return self._last(memory, window, rows, newest)

    def _last(self, memory: Tensor, window: Tensor, rows: Tensor, newest: Tensor) -> Tensor:
        """The last layer for one of its rows (N, W, d)."""
        layer = self._layers[-1]
        there = torch.arange(rows.shape[1], device=newest.device) <= newest.view(-1, 1, 1)
        row = rows[torch.arange(rows.shape[0], device=rows.device), newest]
        row = layer.after_self(row, layer.self_attention.attend_one(row, rows, there))
        looked_at = None
        if self.config.include_work:
            looked_at = F.pad(there, (memory.shape[1], 0), value=True)
            memory = torch.cat([memory, window], dim=1)
        row = layer.after_cross(row, layer.memory_attention.attend_one(row, memory, looked_at))
        return self._normed(layer.feed_forward(row))

    def _projections(self) -> list[tuple[MemoryAttention, int]]:
        """What projects frames before the last layer: attentions, and where in their in-projection that begins.

        All of the first self-attention (from row 0), and keys and values (from row d) of each cross-attention that
        looks at the work memory.
        """
        layers = self._layers[:-1]
        projections = [(layers[0].self_attention, 0)] if layers else []
        if self.config.include_work:
            projections += [(layer.memory_attention, self.config.width) for layer in layers]
        return projections

    def _normed(self, row: Tensor) -> Tensor:
        return row if self.norm is None else cast(Tensor, self.norm(row))


def _later(count: int, like: Tensor) -> Tensor:
    """(count, count): -inf where a row would look at a later one."""
    return like.new_full((count, count), -torch.inf).triu(1)
