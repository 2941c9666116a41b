"""Attention of learned queries to a memory that slides, brought up to date in O(d) for each query.

The queries are constants, so a sample's score against each of them is computed once, and Σ exp(s_j) v_j over the
memory changes by two terms when a sample enters and another leaves. The mathematics is that of `retroactive.py`: a
running maximum for each query, sums in float64, a bound of the error, and rows that lost too many digits computed
anew. Here a row lives as long as its stream, so a bound that has grown over very many steps is renewed in that way too.

TeSTra weighs a sample of age a with αᵃ + 1e-10. The sum of the two is kept as two sums: in one, every weight shrinks by
α when a sample enters, which lowers the row's maximum by -ln α and changes nothing else; in the other, none does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from pipelines.model.attention.retroactive import ALL_ROWS_SHARE, TOLERANCE, UNIT, extended

FLOOR = 1e-10  # what TeSTra adds to a weight that has decayed


class QuerySums(NamedTuple):
    """Sums of the queries of every phase. `parts`: 1, or 2 with decay (what decays, and the floor)."""

    sums: Tensor  # (B, phases, parts, h, q, w + 2) float64: weighted sum of values, mass, value mass
    reference: Tensor  # (B, phases, parts, h, q, 1) float64: what exponents are taken relative to
    error: Tensor  # (B, phases, parts, h, q, 2) float64: bound of the absolute error of mass and value mass


class Exchange(NamedTuple):
    """What enters a memory and what leaves it. Leaving ones count only where `full`."""

    score: Tensor  # (B, h, q)
    value: Tensor  # (B, h, w)
    old_score: Tensor  # (B, h, q)
    old_value: Tensor  # (B, h, w)
    full: Tensor  # (B,) bool


class Samples(NamedTuple):
    """All samples of the memories, by slot: what rows are computed anew from."""

    score: Tensor  # (B, h, q, L)
    value: Tensor  # (B, h, L, w)
    age: Tensor  # (B, L) of the sample in each slot; the newest has 0
    present: Tensor  # (B, L) bool


def empty_sums(batch: int, phases: int, decays: bool, heads: int, queries: int, width: int, like: Tensor) -> QuerySums:
    """Sums before the first sample, on the device of `like`."""
    shape = (batch, phases, 2 if decays else 1, heads, queries)

    def full(columns: int, value: float) -> Tensor:
        return torch.full((*shape, columns), value, dtype=torch.float64, device=like.device)

    return QuerySums(full(width + 2, 0.0), full(1, -math.inf), full(2, 0.0))


def exchanged(rows: QuerySums, exchange: Exchange, samples: Samples, decay: float) -> QuerySums:
    """The sums of one phase (B, parts, h, q, …) after a sample has entered. samples: with the new one, without the old.

    Rows that have lost too many digits are computed anew.
    """
    if torch.compiler.is_compiling():  # a traced graph cannot branch on how many rows are bad
        return _computed(samples, decay, None)
    width = exchange.value.shape[-1]
    slope, start = _slopes(decay, exchange.score)  # (parts, 1, 1, 1)
    length = samples.age.shape[-1]
    value, old_value = extended(exchange.value)[:, None], extended(exchange.old_value)[:, None]  # (B, 1, h, w + 2)
    score = exchange.score.double()[:, None, ..., None] + start  # (B, parts, h, q, 1)
    old_score = exchange.old_score.double()[:, None, ..., None] + start - length * slope
    lowered = rows.reference - slope
    raised = torch.maximum(lowered, score)
    shrink = torch.exp(lowered - raised)
    weight = torch.exp(score - raised)
    old_weight = torch.exp(torch.clamp(old_score - raised, max=0.0)) * exchange.full.view(-1, 1, 1, 1, 1)
    grown = rows.sums[..., width:] * shrink + weight * value[..., None, width:]
    changes = torch.cat([weight, -old_weight], dim=-1)  # (B, parts, h, q, 2)
    sums = rows.sums * shrink + torch.matmul(changes, torch.stack([value, old_value], dim=3))
    # Lowering the maximum rounds it, once for every sample that has entered since.
    drift = 0.0 if decay == 1.0 else raised.abs() + length * slope
    error = rows.error * shrink + UNIT * (2 + drift) * grown
    error = error + UNIT * (4 + length * drift) * old_weight * old_value[..., None, width:]
    bad = ~(error <= TOLERANCE[exchange.value.dtype] * sums[..., width:]).all(-1)  # (B, parts, h, q)
    updated = QuerySums(sums, raised, error)
    return _recomputed(updated, bad, samples, decay) if bool(bad.any()) else updated


def attended(rows: QuerySums) -> Tensor:
    """Attention (B, h, q, w) from the sums of one phase (B, parts, h, q, …)."""
    top = rows.reference.amax(1, keepdim=True)
    total = (rows.sums * torch.exp(rows.reference - top)).sum(1)
    return total[..., :-2] / total[..., -2:-1]


def age_bias(age: Tensor, decay: float) -> Tensor:
    """What age adds to a score, as TeSTra writes it."""
    return torch.log(decay**age + FLOOR)


def _slopes(decay: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """What exponents lose when a sample enters, and what they start with, for each part: two (parts, 1, 1, 1)."""
    parts = [(0.0, 0.0)] if decay == 1.0 else [(-math.log(decay), 0.0), (0.0, math.log(FLOOR))]
    slope, start = torch.tensor(parts, dtype=torch.float64, device=like.device).view(-1, 2, 1, 1, 1).unbind(1)
    return slope, start


def _recomputed(rows: QuerySums, bad: Tensor, samples: Samples, decay: float) -> QuerySums:
    """`rows` with the bad ones computed anew."""
    if int(bad.sum()) > ALL_ROWS_SHARE * bad.numel():
        return _computed(samples, decay, None)
    index = bad.nonzero(as_tuple=True)
    anew = _computed(samples, decay, index)
    return QuerySums(*(old.index_put(index, new) for old, new in zip(rows, anew, strict=True)))


def _computed(samples: Samples, decay: float, index: tuple[Tensor, ...] | None) -> QuerySums:
    """Sums from scratch: of all rows (B, parts, h, q, …), or of those at (stream, part, head, query), (rows, …)."""
    slope, start = _slopes(decay, samples.score)
    scores, values, bias = samples.score, samples.value, start - slope * samples.age[:, None, None, None].double()
    bias = bias.masked_fill(~samples.present[:, None, None, None], -math.inf)  # (B, parts, 1, 1, L)
    if index is None:
        exponents = scores.double()[:, None] + bias
        values = extended(values)[:, None]
    else:
        stream, part, head, query = index
        exponents = (scores[stream, head, query].double() + bias[stream, part, 0, 0]).unsqueeze(1)
        values = extended(values[stream, head])
    reference = exponents.amax(-1, keepdim=True)
    sums = torch.matmul(torch.exp(exponents - reference), values)
    if index is not None:
        sums, reference = sums.squeeze(1), reference.squeeze(1)
    return QuerySums(sums, reference, 4 * UNIT * sums[..., -2:])
