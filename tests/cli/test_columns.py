"""Tables and paragraphs at any width of the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotrans_cli.display.columns import aligned, parts_that_fit, wrapped
from cotrans_cli.display.console import note, print_json, print_line
from cotrans_cli.display.training_progress import epoch_line
from cotrans_cli.main import run
from pipelines.training.events import EpochDone
from pipelines.training.fitting.validation import Scores

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


@pytest.mark.parametrize("width", [None, 60, 80, 120])
def test_an_epoch_is_one_line(width: int | None) -> None:
    scores = Scores(loss=0.306, accuracy=0.9565, accuracy_mean=1.0, accuracy_vote=1.0)
    event = EpochDone(12, 120, 9.1e-4, 0.868, 1.0, scores, True, 101.5, 30.0)
    line = epoch_line(event, width)
    assert line.startswith("* epoch  12  loss 0.868 / 0.306  accuracy 95.65 %") and len(line) <= (width or 120)
    assert ("lr 0.00091" in line) == (width in (None, 120)) and ("vote" in line) == (width in (None, 120))


def test_a_note_goes_on_below_its_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    note("  window       10 rows = 2.5 s: half a clip, so that a change shows soon", indent=15)
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith("  window       10 rows") and others
    assert all(line.startswith(" " * 15) and line[15] != " " and len(line) <= 40 for line in others)


def test_results_are_broken_between_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = "mobilenet_v2-imagenet  (not here, 14.2 MB, BSD-3-Clause, default of mobilenet_v2)"
    print_line(text)
    assert capsys.readouterr().out == f"{text}\n"  # a file or program gets it whole
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    print_line(text)
    first, *others = lines = capsys.readouterr().out.splitlines()
    assert first.startswith("mobilenet_v2-imagenet  (not") and others and all(len(line) <= 60 for line in lines)
    assert " ".join(line.strip() for line in lines) == text
    print_json({"text": text})
    assert text in capsys.readouterr().out


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("command", [("weights", "list"), ("models",), ("data", "get")])
def test_lists_fit_the_terminal(
    command: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    assert run([*command]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 4 and all(len(line) <= width for line in lines)
