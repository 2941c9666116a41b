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
    bias: Tensor | None = None,
) -> Tensor:
    """Regular attention: (B, h, m, w), (B, h, n, w), (B, h, n, w) to (B, h, m, w).

    mask: true where a key may be seen, broadcast to (B, h, m, n). rows: queries at a time, which caps the memory
    of the scores at B · h · rows · n numbers. bias: (B or 1, h, 1, n), added to the scores of each key.
    """
    if rows is not None and rows < query.shape[2]:
        parts = [
            attend(part, key, value, None if mask is None else _mask_rows(mask, i * rows, rows), None, dropout, bias)
            for i, part in enumerate(torch.split(query, rows, dim=2))
        ]
        return torch.cat(parts, dim=2)
    scores = torch.matmul(query, key.transpose(-2, -1))
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if dropout:
        weights = F.dropout(weights, dropout)
    return torch.matmul(weights, value)


def _mask_rows(mask: Tensor, first: int, count: int) -> Tensor:
    return mask if mask.shape[-2] == 1 else mask[..., first : first + count, :]


def attend_one(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Single-output attention: one query (B, h, w) on keys and values (B, h, n, w) to (B, h, w).

    mask: (B, 1, 1, n), true where a slot holds a token. bias: (B or 1, h, 1, n), added to the scores.
    """
    batch, heads, width = query.shape
    query = query.reshape(batch * heads, 1, width)
    scores = torch.bmm(query, key.flatten(0, 1).transpose(1, 2))  # (B · h, 1, n)
    if bias is not None:
        scores = (scores.view(batch, heads, 1, -1) + bias).flatten(0, 1)
    if mask is not None:
        scores = scores.view(batch, heads, 1, -1).masked_fill(~mask, float("-inf")).flatten(0, 1)
    weights = torch.softmax(scores, dim=-1)
    if dropout:
        weights = F.dropout(weights, dropout)
    return torch.bmm(weights, value.flatten(0, 1)).view(batch, heads, width)


def attend_band(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seen: Tensor,
    class_key: Tensor | None = None,
    class_value: Tensor | None = None,
    dropout: float = 0.0,
    bias: Tensor | None = None,
) -> Tensor:
    """Single-output attention for T steps at once: query t sees the n keys that end at its own time.

    query: (B, h, T, w). key, value: (B, h, n - 1 + T, w) in order of time, the n - 1 before the chunk first.
    seen: (B, n - 1) true where those were really there. class_key, class_value: (B, h, 1, w) seen by every query.
    bias: (h, n) added to the scores of keys by their age.

    The queries go in groups, each with the keys that any of them sees. The groups are overlapping views of the keys:
    one call does them all, and the scores of a group stay in the cache of a core.
    """
    batch, heads, length, width = query.shape
    carried = key.shape[2] - length
    groups, size = group_sizes(length)
    spare = groups * size - length  # queries at the end that nobody asked for
    reach = carried + size  # keys of one group
    queries, keys, values = (_time_first(rows, spare) for rows in (query, key, value))  # (time, B · h, w)
    queries = queries.view(groups, size, batch * heads, width).transpose(1, 2)
    keys, values = (rows.unfold(0, reach, size).transpose(2, 3) for rows in (keys, values))  # (groups, B · h, reach, w)
    lead = 0
    if class_key is not None and class_value is not None:
        lead = 1
        keys, values = (
            torch.cat([_time_first(token, 0).transpose(0, 1).expand(groups, -1, 1, width), rows], dim=2)
            for token, rows in ((class_key, keys), (class_value, values))
        )
    offset = torch.arange(reach, device=key.device) - torch.arange(size, device=key.device).unsqueeze(1)
    outside = ((offset < 0) | (offset > carried)).expand(1, 1, size, reach)
    aged = None if bias is None else bias[:, (carried - offset).clamp(0, carried)].repeat(batch, 1, 1)
    absent = _absent(seen)
    # Only the first groups reach back to before the chunk, where tokens may be absent.
    early = 0 if absent is None else min(groups, -(-carried // size))
    parts = []
    if absent is not None and early:
        absent = F.pad(absent, (0, groups * size)).unfold(1, reach, size)[:, :early].transpose(0, 1)
        if absent.shape[1] > 1:
            absent = absent.repeat_interleave(heads, dim=1)  # (early groups, B · h, reach)
        hidden = outside | absent.unsqueeze(2)
        parts.append(_attend_groups(queries[:early], keys[:early], values[:early], hidden, aged, lead, dropout))
    if early < groups:
        parts.append(_attend_groups(queries[early:], keys[early:], values[early:], outside, aged, lead, dropout))
    attended = torch.cat(parts) if len(parts) > 1 else parts[0]  # (groups, B · h, size, w)
    rows = attended.transpose(1, 2).reshape(groups * size, batch, heads, width)[:length]
    return rows.permute(1, 2, 0, 3)


def _attend_groups(
    query: Tensor, key: Tensor, value: Tensor, hidden: Tensor, aged: Tensor | None, lead: int, dropout: float
) -> Tensor:
    """hidden: (groups or 1, B · h or 1, size, reach), true where a key is not seen; `lead` keys before them are.

    aged: (B · h, size, reach) added to the scores of those keys.
    """
    hidden = F.pad(hidden, (lead, 0), value=False)
    if aged is None:
        bias = torch.zeros(hidden.shape, dtype=query.dtype, device=query.device).masked_fill_(hidden, float("-inf"))
    else:
        bias = F.pad(aged, (lead, 0)).masked_fill(hidden, float("-inf"))
        if bias.requires_grad:  # fused attention has no gradient of its bias, and takes a longer way round than this
            weights = torch.softmax(torch.matmul(query, key.transpose(-2, -1)) + bias, dim=-1)
            return torch.matmul(F.dropout(weights, dropout) if dropout else weights, value)
    return F.scaled_dot_product_attention(query, key, value, bias, dropout_p=dropout, scale=1.0)


def group_sizes(length: int) -> tuple[int, int]:
    """How many groups `attend_band` makes of `length` queries, and how many queries each has."""
    groups = -(-length // GROUP)
    return groups, -(-length // groups)


def _absent(seen: Tensor) -> Tensor | None:
    """Which keys before the chunk were never there: (B, n - 1), one row for all streams in step, or None for none.

    As in `ring.cursor_for`, values are looked at only where that does not wait for a device or end a trace.
    """
    if seen.is_cpu and not torch.compiler.is_compiling():
        if bool(seen.all()):
            return None
        if bool((seen == seen[:1]).all()):
            return ~seen[:1]
    return ~seen


def _time_first(rows: Tensor, spare: int) -> Tensor:
    """(B, h, T, w) to (T + spare, B · h, w), without a copy for one stream whose heads lie side by side."""
    rows = rows.permute(2, 0, 1, 3).flatten(1, 2)
    return F.pad(rows, (0, 0, 0, 0, 0, spare)) if spare else rows
