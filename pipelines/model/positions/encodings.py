"""Positional encodings: static (place in the window) and recycling (place in the stream, modulo the entries)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.model.transformer.config import ModelConfig

GRID = 0.01  # spacing of the sampled waves in the cyclic encoding


class PositionalEncoding(nn.Module):
    """A table (positions, d): a parameter when learned, a buffer that is not saved when cyclic."""

    table: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.recycling = config.positional == "recycling"
        if config.encoding == "cyclic":
            table = cyclic_table(config.position_count, config.width)
            self.register_buffer("table", table, persistent=False)
        else:
            self.table = nn.Parameter(torch.empty(config.position_count, config.width))
            if not self.table.is_meta:  # random numbers for no memory make torch load its compiler
                nn.init.normal_(self.table, std=0.02)

    def at(self, index: Tensor) -> Tensor:
        """Recycling only. Index in the stream (…) to encoding (…, d)."""
        return self.table[index % self.table.shape[0]]

    def window(self, length: int, start: int | Tensor, batch_size: int) -> Tensor:
        """Encodings of a window of `length` tokens whose first has index `start` in its stream: (B or 1, length, d)."""
        if not self.recycling:
            return self.table[:length].unsqueeze(0)
        steps = torch.arange(length, device=self.table.device)
        if isinstance(start, Tensor):
            return self.at(start.to(self.table.device).view(-1, 1).expand(batch_size, 1) + steps)
        return self.at(start + steps).unsqueeze(0)


def cyclic_table(positions: int, width: int) -> Tensor:
    """The fixed cyclic encoding of Ma et al. (2021), in which the last entry is next to the first: (positions, width).

    Column i is a folded sine (even i) or cosine (odd i) with a period from 1 to `positions` that is shared by
    three columns at a time; the upper half of the columns is shifted in phase. Neighbouring rows are averaged,
    and every column is centred.
    """
    half = max(1, width // 2)
    periods = np.linspace(positions ** (1 / half), positions, half, dtype=int)
    index = np.arange(width)
    middle = index // 3 * 3 + 1
    period = np.where(middle < half, periods[np.minimum(middle, half - 1)], periods[-1])
    phase = np.where(index <= half, 0.0, 2 * np.pi * (half - index) / half)
    columns = []
    for i in range(width):
        # Whole periods that cover all positions, sampled on a fine grid, of which every position takes one point.
        points = math.ceil(math.ceil(positions / period[i]) * period[i] / GRID)
        place = GRID * np.linspace(0, points, positions, dtype=int, endpoint=False)
        angle = 2 * np.pi / period[i] * np.abs(np.mod(place, 2 * period[i]) - period[i]) + phase[i]
        columns.append(np.cos(angle) if i % 2 else np.sin(angle))
    table = np.stack(columns, axis=1)
    smooth = sum(np.roll(table, shift, axis=0) for shift in (-2, -1, 0, 1, 2)) / 5
    return torch.from_numpy(smooth - table.mean(axis=0)).to(torch.get_default_dtype())
