"""Regular and banded scaled dot-product attention on heads. The retroactive kind is in `retroactive.py`.

Queries come scaled by 1/√(d/h). Products are plain matrix products, so that a counter of operations sees them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    rows: int | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Regular attention: (B, h, m, w), (B, h, n, w), (B, h, n, w) to (B, h, m, w).

    mask: true where a key may be seen, broadcast to (B, h, m, n). rows: queries at a time, which caps the memory
    of the scores at B · h · rows · n numbers.
    """
    if rows is not None and rows < query.shape[2]:
        parts = [
            attend(part, key, value, None if mask is None else _mask_rows(mask, i * rows, rows), None, dropout)
            for i, part in enumerate(torch.split(query, rows, dim=2))
        ]
        return torch.cat(parts, dim=2)
    scores = torch.matmul(query, key.transpose(-2, -1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if dropout:
        weights = F.dropout(weights, dropout)
    return torch.matmul(weights, value)


def _mask_rows(mask: Tensor, first: int, count: int) -> Tensor:
    return mask if mask.shape[-2] == 1 else mask[..., first : first + count, :]


def attend_one(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Single-output attention: one query (B, h, w) on keys and values (B, h, n, w) to (B, h, w).

    mask: (B, 1, 1, n), true where a slot holds a token.
    """
    batch, heads, width = query.shape
    query = query.reshape(batch * heads, 1, width)
    scores = torch.bmm(query, key.flatten(0, 1).transpose(1, 2))  # (B · h, 1, n)
    if mask is not None:
        scores = scores.view(batch, heads, 1, -1).masked_fill(~mask, float("-inf")).flatten(0, 1)
    return torch.bmm(torch.softmax(scores, dim=-1), value.flatten(0, 1)).view(batch, heads, width)


def attend_band(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seen: Tensor,
    class_key: Tensor | None = None,
    class_value: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Single-output attention for T steps at once: query t sees the n keys that end at its own time.

    query: (B, h, T, w). key, value: (B, h, n - 1 + T, w) in order of time, the n - 1 before the chunk first.
    seen: (B, n - 1) true where those were really there. class_key, class_value: (B, h, 1, w) seen by every query.
    """
    batch, heads, length, width = query.shape
    carried = key.shape[2] - length
    size = _group_size(length, carried + 1)
    groups = -(-length // size)
    padding = groups * size - length
    if padding:
        query, key, value = (F.pad(x, (0, 0, 0, padding)) for x in (query, key, value))
    span = carried + size  # keys that a group of `size` queries can see
    device = query.device
    offset = torch.arange(span, device=device) - torch.arange(size, device=device).unsqueeze(1)
    band = (offset >= 0) & (offset <= carried)  # (size, span)
    there = F.pad(seen, (0, groups * size), value=True).unfold(1, span, size)  # (B, groups, span)
    mask = band & there.unsqueeze(2)  # (B, groups, size, span)

    query = query.reshape(batch, heads, groups, size, width)
    key = key.unfold(2, span, size)  # (B, h, groups, w, span)
    value = value.unfold(2, span, size).transpose(-2, -1)
    scores = torch.matmul(query, key)  # (B, h, groups, size, span)
    scores = scores.masked_fill(~mask.unsqueeze(1), float("-inf"))
    if class_key is not None:
        scores = torch.cat([torch.matmul(query, class_key.unsqueeze(2).transpose(-2, -1)), scores], dim=-1)
    weights = torch.softmax(scores, dim=-1)
    if dropout:
        weights = F.dropout(weights, dropout)
    if class_value is None:
        result = torch.matmul(weights, value)
    else:
        result = torch.matmul(weights[..., 1:], value) + weights[..., :1] * class_value.unsqueeze(2)
    return result.reshape(batch, heads, groups * size, width)[:, :, :length]


def _group_size(length: int, window: int) -> int:
    """Queries per group: small groups waste fewer masked products, large ones make larger products."""
    return max(1, min(length, max(16, window // 2)))
