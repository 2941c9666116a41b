"""Rotary positions: queries and keys are turned by their index in the stream, and a product sees the difference.

A key is turned once, when it arrives, and stays right for as long as it is cached. The turn of an index is computed
in whole steps: a full turn is divided into 2³⁰, every pair of columns moves by a whole number of them at each token,
and so the index counts modulo a full turn, exactly. A stream of any length loses no digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

STEPS_OF_A_TURN = 2**30
BASE = 10_000  # the slowest pair of columns takes about BASE · 2π tokens for a turn


class Rotation(NamedTuple):
    """How much rows are turned: the two columns of a pair, i and i + w / 2, by one angle."""

    cosine: Tensor  # (…, w)
    sine: Tensor  # (…, w), negative for the first column of each pair


def rates(head_width: int, device: torch.device | None = None) -> Tensor:
    """Steps of a turn for each token (w / 2,) int64, from one radian down to 1 / BASE of it."""
    pairs = head_width // 2
    angles = [BASE ** (-pair / pairs) for pair in range(pairs)]
    return torch.tensor([round(STEPS_OF_A_TURN * angle / math.tau) for angle in angles], device=device)


def rotation(index: Tensor, rate: Tensor, dtype: torch.dtype) -> Rotation:
    """The turn of tokens with these indices in the stream: (…) int64 to (…, w)."""
    # Below 2³⁰ times below 2²⁸: an int64 holds it.
    steps = (index % STEPS_OF_A_TURN).unsqueeze(-1) * rate % STEPS_OF_A_TURN
    angle = steps.double() * (math.tau / STEPS_OF_A_TURN)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    return Rotation(torch.cat([cosine, cosine], dim=-1).to(dtype), torch.cat([-sine, sine], dim=-1).to(dtype))


def rotate(rows: Tensor, turn: Rotation | None) -> Tensor:
    """Rows of heads (B, h, w) or (B, h, m, w) by a turn (B or 1, w) or (B or 1, m, w); None: as they are."""
    if turn is None:
        return rows
    swapped = rows.roll(rows.shape[-1] // 2, dims=-1)
    return torch.addcmul(rows * turn.cosine.unsqueeze(1), swapped, turn.sine.unsqueeze(1))
