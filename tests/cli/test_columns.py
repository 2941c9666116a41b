"""Tables and paragraphs at any width of the terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cotrans_cli.display.columns import aligned, parts_that_fit, wrapped

WORDS = st.text("abc,.0123456789", min_size=1, max_size=12)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=12), st.integers(10, 120))
def test_every_column_stands_in_one_part_and_parts_fit(widths: list[int], available: int) -> None:
    parts = parts_that_fit(widths, available)
    assert [index for part in parts for index in part] == list(range(1, len(widths)))
    for part in parts:
        assert len(part) == 1 or widths[0] + sum(widths[index] for index in part) <= available


@given(st.integers(2, 8), st.integers(1, 5), st.data(), st.integers(30, 120))
def test_no_line_is_longer_than_the_terminal(columns: int, count: int, data: st.DataObject, available: int) -> None:
    header, *rows = [[data.draw(WORDS) for _ in range(columns)] for _ in range(count + 1)]
    lines = aligned(header, rows, available=available)
    assert all(len(line) <= available for line in lines)
    for cell in (cell for row in rows for cell in row):
        assert any(cell in line for line in lines)


@given(st.lists(WORDS, min_size=1, max_size=30), st.integers(20, 100))
def test_paragraphs_break_between_words(words: list[str], available: int) -> None:
    lines = wrapped(" ".join(words), indent="    ", available=available)
    assert " ".join(" ".join(lines).split()) == " ".join(words)
    assert all(len(line) <= available for line in lines)
