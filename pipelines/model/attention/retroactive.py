"""Retroactive attention: all rows of the window, brought up to date by each token in O(nd).

A row is Σ exp(s_j - m) v_j / Σ exp(s_j - m) over the window. A new token adds its term to every row, and the token
that leaves takes its own away. Written like that it is not safe: exponents overflow, and a row that loses the key
which dominated it is left with the rounding error of what was taken away. Here instead

- m is a running maximum per row, so that no exponent is above 0;
- sums are kept in float64, scores and values included (a term must be taken away as it was added);
- every row carries a bound of its own error, relative to what is left in it; a row whose bound grows too large is
  computed anew. That is rare, and a row lives for only n steps in any case.

Values carry two more columns, 1 and the largest magnitude in the value, so that one update keeps the weighted sum,
the row's mass and its value mass, which errors are measured against.

With a linear penalty of age, every weight in a row shrinks by the same factor at each step. Sums are kept relative to
the row's reference, so lowering the reference by the slope is all that this takes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pipelines.model.attention.ring import Cursor, RowCursor
from pipelines.model.state import RetroactiveState

UNIT = 2.0**-53  # unit roundoff of float64
# Largest bound of the relative error that a row may have before it is computed anew.
TOLERANCE = {
    torch.float32: 2.0**-26,
    torch.float64: 2.0**-40,
    torch.float16: 2.0**-16,
    torch.bfloat16: 2.0**-13,
}
# With more rows to compute anew than this share, it is cheaper to compute all of them.
ALL_ROWS_SHARE = 0.25


class Fading(NamedTuple):
    """A linear penalty of age, both float64."""

    slopes: Tensor  # (h,) what a weight's exponent loses at each step
    bias: Tensor  # (B or 1, h, 1, slots) what the exponents of the occupied slots have lost by now


def empty_state(batch_size: int, heads: int, slots: int, width: int, like: Tensor) -> RetroactiveState:
    """A state without tokens for heads of `width`, on the device of `like`."""

    def zeros(columns: int) -> Tensor:
        return torch.zeros(batch_size, heads, slots, columns, dtype=torch.float64, device=like.device)

    return RetroactiveState(
        token=like.new_zeros(batch_size, slots, heads * width),
        query=zeros(width),
        magnitude=zeros(1),
        key=zeros(width),
        value=zeros(width + 2),
        sums=zeros(width + 2),
        reference=zeros(1),
        error=zeros(2),
    )


def extended(value: Tensor) -> Tensor:
    """Values (…, w) as float64 with the columns 1 and largest magnitude: (…, w + 2)."""
    value = value.double()
    return torch.cat([value, torch.ones_like(value[..., :1]), value.abs().amax(-1, keepdim=True)], dim=-1)


def update_(
    state: RetroactiveState,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    cursor: Cursor,
    lead: int,
    fading: Fading | None = None,
) -> Tensor:
    """Take in one token: its query, key and value are (B, h, w), and scores are taken times `scale`.

    Returns the attention output of all occupied slots (B, h, slots, w); `state` is written in place. `lead` slots at
    the front belong to a class token. fading: not together with a class token, whose weight would not fade.
    """
    tolerance = TOLERANCE[query.dtype]
    query, key, new_value = query.double() * scale, key.double(), extended(value)
    old_key, old_value = cursor.read(state.key, lead).clone(), cursor.read(state.value, lead).clone()
    cursor.write(state.query, query, lead)
    cursor.write(state.magnitude, torch.linalg.vector_norm(query, dim=-1, keepdim=True), lead)
    cursor.write(state.key, key, lead)
    cursor.write(state.value, new_value, lead)

    mask = cursor.mask(lead)
    bias = None if fading is None else fading.bias
    queries, keys, values = (cursor.occupied(ring, lead) for ring in (state.query, state.key, state.value))
    if torch.compiler.is_compiling():
        # A traced graph cannot branch on how many rows are bad.
        sums, reference, error = compute_rows(queries, keys, values, mask, bias)
    else:
        slopes = None if fading is None else fading.slopes
        sums, reference, error = _updated(state, cursor, lead, key, new_value, old_key, old_value, slopes)
        bad = _bad_rows(sums, error, tolerance)
        # The newest token's own row starts here; it is computed like a bad one.
        fresh = compute_rows(query.unsqueeze(2), keys, values, mask, bias)
        for ring, row in zip((sums, reference, error), fresh, strict=True):
            cursor.write(ring, row.squeeze(2), lead)
        cursor.write(bad, bad.new_zeros((*bad.shape[:2], 1)), lead)
        if bool(bad.any()):
            sums, reference, error = _recomputed(bad, (sums, reference, error), queries, keys, values, mask, bias)
    width = query.shape[-1]
    for ring, new in ((state.sums, sums), (state.reference, reference), (state.error, error)):
        _keep(ring, new, cursor)
    return sums[..., :width] / sums[..., width : width + 1]


def _updated(
    state: RetroactiveState,
    cursor: Cursor,
    lead: int,
    key: Tensor,
    value: Tensor,
    old_key: Tensor,
    old_value: Tensor,
    slopes: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums, reference and error of every occupied slot with the new token in and the old one out."""
    queries, sizes, sums, reference, error = (
        cursor.occupied(ring, lead) for ring in (state.query, state.magnitude, state.sums, state.reference, state.error)
    )
    if torch.is_grad_enabled():  # autograd keeps these, and `_keep` will write over them
        sums, reference, error = sums.clone(), reference.clone(), error.clone()
    full = cursor.full
    scores = torch.matmul(queries, torch.stack([key, old_key], dim=-1))  # (B, h, slots, 2)
    score, old_score = torch.split(scores, 1, dim=-1)
    if slopes is not None:
        slope = slopes.view(-1, 1, 1)
        reference, old_score = reference - slope, old_score - cursor.window * slope
    raised = torch.maximum(reference, score)
    shrink = torch.exp(reference - raised)
    weight = torch.exp(score - raised)
    # Before the window is full, nothing leaves.
    old_weight = torch.exp(torch.minimum(old_score - raised, torch.zeros_like(raised)))
    old_weight = old_weight * full
    changes = torch.cat([weight, -old_weight], dim=-1)  # (B, h, slots, 2)
    width = queries.shape[-1]
    grown = sums[..., width:] * shrink + weight * value[:, :, None, width:]
    new_sums = sums * shrink + torch.matmul(changes, torch.stack([value, old_value], dim=2))
    # The score of the leaving key was computed once when it was added and once now, in another order of summation.
    mismatch = UNIT * (4 + width * sizes * torch.linalg.vector_norm(old_key, dim=-1)[:, :, None, None])
    new_error = error * shrink + 2 * UNIT * grown
    if slopes is not None:  # lowering the reference rounds it, at each step of a row's life
        new_error = new_error + UNIT * raised.abs() * grown
        mismatch = mismatch + UNIT * cursor.window * (raised.abs() + cursor.window * slopes.view(-1, 1, 1))
    new_error = new_error + mismatch * old_weight * old_value[:, :, None, width:]
    return new_sums, raised, new_error


def _bad_rows(sums: Tensor, error: Tensor, tolerance: float) -> Tensor:
    """(B, h, slots, 1), true where the error bound is too large for what is left in the row."""
    return ~(error <= tolerance * sums[..., -2:]).all(-1, keepdim=True)


def compute_rows(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums (…, m, w + 2), reference (…, m, 1) and error (…, m, 2) from scratch for queries (…, m, w)."""
    scores = torch.matmul(query, key.transpose(-2, -1))
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    reference = scores.amax(-1, keepdim=True)
    sums = torch.matmul(torch.exp(scores - reference), value)
    return sums, reference, 4 * UNIT * sums[..., -2:]


Rows = tuple[Tensor, Tensor, Tensor]


def _recomputed(
    bad: Tensor,
    rows: Rows,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
) -> Rows:
    """`rows` with the bad ones computed anew."""
    batch, head, slot, _ = bad.nonzero(as_tuple=True)
    if len(batch) > ALL_ROWS_SHARE * bad.numel():
        return compute_rows(queries, keys, values, mask, bias)
    anew = compute_rows(
        queries[batch, head, slot].unsqueeze(1),
        keys[batch, head],
        values[batch, head],
        None if mask is None else mask[batch, 0],
        None if bias is None else bias.expand(bad.shape[0], -1, -1, -1)[batch, head],
    )
    sums, reference, error = (
        ring.index_put((batch, head, slot), row.squeeze(1)) for ring, row in zip(rows, anew, strict=True)
    )
    return sums, reference, error


def _keep(ring: Tensor, new: Tensor, cursor: Cursor) -> None:
    """Write the rows of all occupied slots, but not those of streams that are not active."""
    if isinstance(cursor, RowCursor) and cursor.active is not None:
        new = torch.where(cursor.active.view(-1, 1, 1, 1), new, ring)
    # Streams in step that are warming up have fewer rows than slots.
    ring[:, :, : new.shape[2]] = new
