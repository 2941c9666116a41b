"""Regular and banded scaled dot-product attention on heads. The retroactive kind is in `retroactive.py`.

Queries come scaled by 1/√(d/h).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# Queries per group of a banded pass: small groups waste few products outside the band, large ones make larger products.
GROUP = 32


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

    Groups of queries are done one after the other: the scores of one group stay in the cache of a core.
    """
    length = query.shape[2]
    carried = key.shape[2] - length
    lead = 0 if class_key is None else 1
    offset = torch.arange(carried + GROUP, device=key.device) - torch.arange(GROUP, device=key.device).unsqueeze(1)
    outside = F.pad((offset < 0) | (offset > carried), (lead, 0), value=False)  # (GROUP, lead + n - 1 + GROUP)
    band = torch.zeros(outside.shape, dtype=query.dtype, device=query.device).masked_fill(outside, float("-inf"))
    groups = []
    for first in range(0, length, GROUP):
        last = min(first + GROUP, length)
        size, stop = last - first, carried + last
        keys, values = key[:, :, first:stop], value[:, :, first:stop]
        if class_key is not None and class_value is not None:
            keys, values = torch.cat([class_key, keys], dim=2), torch.cat([class_value, values], dim=2)
        bias = band[:size, : lead + stop - first]
        if first < carried:
            absent = F.pad(~seen[:, first:], (lead, stop - carried), value=False)[:, : lead + stop - first]
            bias = bias.masked_fill(absent[:, None, None], float("-inf"))
        groups.append(
            F.scaled_dot_product_attention(query[:, :, first:last], keys, values, bias, dropout_p=dropout, scale=1.0)
        )
    return torch.cat(groups, dim=2)
