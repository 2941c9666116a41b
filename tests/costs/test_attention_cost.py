"""Attention by the paper's formulas."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.costs.attention_cost import Operations, attention_costs
from pipelines.errors import ConfigurationError
from pipelines.untrusted.toml import load_toml

sizes = st.integers(1, 5000)


def formula(text: str, n: int, d: int) -> int:
    """The value of a formula of paper_figures.toml, which is made of n, d, numbers, +, - and *."""
    assert set(text) <= set("nd0123456789+-* ")
    return int(eval(text, {"__builtins__": {}}, {"n": n, "d": d}))


@settings(max_examples=25, deadline=None)
@given(sizes, sizes)
def test_equations_sum_up_to_the_papers_formulas(golden_dir: Path, n: int, d: int) -> None:
    figures = load_toml(golden_dir / "paper_figures.toml")["attention"]
    for cost in attention_costs(n, d):
        row = figures[cost.kind]
        expected = Operations(formula(row["mul"], n, d), formula(row["add"], n, d), formula(row["exp"], n, d))
        assert cost.operations == expected


def test_reductions_are_those_that_the_paper_quotes(golden_dir: Path) -> None:
    quoted = load_toml(golden_dir / "paper_figures.toml")["attention"]["quoted_reduction"]
    for size in (100, 1000):
        _, retroactive, single = attention_costs(size, size)
        assert round(retroactive.reduction) == quoted[f"retroactive_n{size}_d{size}"]
        assert round(single.reduction) == quoted[f"single_output_n{size}_d{size}"]


@settings(max_examples=25, deadline=None)
@given(sizes, st.integers(1, 64), st.integers(1, 64))
def test_heads_share_the_width(n: int, width: int, heads: int) -> None:
    one = attention_costs(n, width)
    for cost, single in zip(attention_costs(n, width * heads, heads), one, strict=True):
        assert cost.operations == single.operations * heads
        assert cost.state_numbers == single.state_numbers * heads


def test_memory_behaves_as_the_paper_says() -> None:
    """Single-output attention needs less memory at all sizes, retroactive attention where n is larger than d."""
    for n in (16, 64, 256, 1024, 4096):
        for d in (16, 64, 256, 1024, 4096):
            regular, retroactive, single = attention_costs(n, d)
            assert single.peak_numbers < regular.peak_numbers
            assert (retroactive.peak_numbers < regular.peak_numbers) == (n > d)
    regular, _, _ = attention_costs(100, 8)
    assert regular.state_numbers == 3 * 99 * 8  # as in section 3.1
    assert regular.state_bytes == 4 * regular.state_numbers


@pytest.mark.parametrize(
    ("n", "d", "heads", "message"),
    [
        (0, 4, 1, "n must be at least 1, not 0"),
        (4, -4, 1, "d must be at least 1, not -4"),
        (4, 4, 0, "heads must be at least 1, not 0"),
        (4, 10, 3, "d = 10 is not divisible by heads = 3"),
    ],
)
def test_sizes_that_cannot_be(n: int, d: int, heads: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        attention_costs(n, d, heads)
