"""Sums of learned queries over a sliding memory equal attention to the memory, whatever the scores."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipelines.model.attention.query_sums import Exchange, QuerySums, Samples, age_bias, attended, empty_sums, exchanged

HEADS, QUERIES, WIDTH = 2, 3, 4


def slide(scores: Tensor, values: Tensor, length: int, decay: float, every: int = 1) -> tuple[Tensor, Tensor]:
    """Attention after every so many samples: from the sums, and from the memory itself. Both (T, h, q, w)."""
    rows = QuerySums(*(part[:, 0] for part in empty_sums(1, 1, decay != 1.0, HEADS, QUERIES, WIDTH, scores)))
    score_ring, value_ring = scores.new_zeros(1, HEADS, QUERIES, length), values.new_zeros(1, HEADS, length, WIDTH)
    ours, theirs = [], []
    for index, (score, value) in enumerate(zip(scores, values, strict=True)):
        slot = index % length
        old = score_ring[..., slot].clone(), value_ring[:, :, slot].clone()
        score_ring[..., slot], value_ring[:, :, slot] = score, value
        age = (index - torch.arange(length)).remainder(length).unsqueeze(0)
        samples = Samples(score_ring, value_ring, age, age <= index)
        exchange = Exchange(score[None], value[None], *old, torch.tensor([index >= length]))
        rows = exchanged(rows, exchange, samples, decay)
        if index % every:
            continue
        ours.append(attended(rows)[0])
        first = max(index + 1 - length, 0)
        ages = torch.arange(index - first, -1, -1)
        exponents = scores[first : index + 1].double().permute(1, 2, 0) + age_bias(ages.double(), decay)
        theirs.append(exponents.softmax(-1) @ values[first : index + 1].double().transpose(0, 1))
    return torch.stack(ours), torch.stack(theirs)


@pytest.mark.parametrize("decay", [1.0, 0.97, 0.5])
def test_ten_thousand_samples_in_which_keys_dominate_and_leave(decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    count = 10_000 if decay == 1.0 else 1_500
    scores = torch.randn(count, HEADS, QUERIES, generator=generator)
    # Now and then one key has all the weight, by e³⁰ to e⁶⁰⁰, until it leaves.
    scores[::37] *= 30
    scores[::211] *= 20
    values = torch.randn(count, HEADS, WIDTH, generator=generator)
    ours, theirs = slide(scores, values, 50, decay, every=9)
    assert ((ours - theirs).abs() <= 1e-7).all()


@settings(max_examples=30, deadline=None)
@given(
    length=st.integers(1, 9),
    scale=st.sampled_from([0.0, 1.0, 30.0, 1e4, 1e30]),
    decay=st.sampled_from([1.0, 0.999, 0.6, 1e-3]),
    seed=st.integers(0, 1000),
)
def test_any_scores(length: int, scale: float, decay: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(40, HEADS, QUERIES, generator=generator) * scale
    values = torch.randn(40, HEADS, WIDTH, generator=generator)
    ours, theirs = slide(scores, values, length, decay)
    assert ((ours - theirs).abs() <= 1e-7).all()
