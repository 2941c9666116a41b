"""Sums over the last m rows of a stream, which a ring remembers: for many rows at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def unrolled(ring: Tensor, new: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """What a ring (B, m, c) holds in the order of time, before T new rows (B, T, c): (B, m + T, c); and the next ring.

    position: (B,) rows of each stream before the new ones.
    """
    rows, length = ring.shape[1], new.shape[1]
    streams = torch.arange(ring.shape[0], device=ring.device).unsqueeze(1)
    slots = (torch.arange(-rows, length, device=ring.device) + position.unsqueeze(1)) % rows
    every = torch.cat([ring[streams, slots[:, :rows]], new], dim=1)
    last = min(length, rows)
    after = ring.clone()
    after[streams, slots[:, -last:]] = every[:, -last:]
    return every, after


def moving_sums(values: Tensor, rows: int) -> Tensor:
    """Of each m rows in a row but the first m: (B, m + T, c) to (B, T, c) float64.

    They are the end of one block of m and the beginning of the next. The difference of two running sums would be
    shorter, and would lose what is small beside all that came before.
    """
    batch, count, columns = values.shape
    length = count - rows
    blocks = F.pad(values.double(), (0, 0, 0, rows - count % rows)).view(batch, -1, rows, columns)
    ends = blocks.flip(2).cumsum(2).flip(2).flatten(1, 2)  # from a row to the end of its block
    beginnings = F.pad(blocks[:, :, :-1].cumsum(2), (0, 0, 1, 0)).flatten(1, 2)  # of its block, before a row
    return ends[:, 1 : length + 1] + beginnings[:, rows + 1 : rows + length + 1]
