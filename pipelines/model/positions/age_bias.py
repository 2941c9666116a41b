"""A bias of the scores that depends on the age of a key: learned (relative) or a linear penalty (alibi).

The age is counted from the newest token, which has age 0, for every query alike. In a ring the ages are a rotation of
0 … n - 1, so the bias of all slots is a slice of a doubled table. The linear penalty makes every older weight of a row
shrink by the same factor at each step, which is why a retroactive row can keep up with it (see `retroactive.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor


def alibi_slopes(heads: int, device: torch.device | None = None) -> Tensor:
    """What a token of age 1 loses, by head (h,) float64: from 2^(-8 / h) down to 1 / 256."""
    return torch.tensor([2.0 ** (-8 * (head + 1) / heads) for head in range(heads)], dtype=torch.float64, device=device)


def alibi_bias(slopes: Tensor, window: int) -> Tensor:
    """The penalty by age: slopes (h,) to (h, n)."""
    return -slopes.unsqueeze(1) * torch.arange(window, dtype=slopes.dtype, device=slopes.device)


def doubled(bias: Tensor) -> Tensor:
    """A bias by age (h, n) as a table (h, 2n) of which every rotation of a ring is a slice: see `Cursor.aged`."""
    n = bias.shape[-1]
    age = -torch.arange(2 * n, device=bias.device) % n
    return bias[:, age]


def of_window(bias: Tensor, length: int, lead: int) -> Tensor:
    """The bias (1, h, 1, lead + length) of a window's tokens in order of time, after `lead` keys that have no age."""
    return _after_lead(bias[:, :length].flip(-1)[None, :, None], lead)


def of_slots(aged: Tensor, lead: int) -> Tensor:
    """The bias (B or 1, h, 1, lead + slots) of a ring, from that of its tokens (B or 1, h, slots)."""
    return _after_lead(aged.unsqueeze(2), lead)


def _after_lead(bias: Tensor, lead: int) -> Tensor:
    """A class token has no age, and no bias."""
    return torch.nn.functional.pad(bias, (lead, 0)) if lead else bias
