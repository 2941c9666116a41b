"""Tables and paragraphs at any width of the terminal."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from cotrans_cli.display.columns import aligned, parts_that_fit, wrapped
from cotrans_cli.display.console import note, note_if_slow, print_json, print_line
from cotrans_cli.display.facts import print_facts
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


@given(st.lists(st.sampled_from(["accuracy", "100.00 %", "0.25 s", "× 3.5", "mean", "26.5 KiB"])), st.integers(12, 60))
def test_numbers_stay_with_their_units(words: list[str], available: int) -> None:
    lines = wrapped(" ".join(words), available=available)
    assert " ".join(lines) == " ".join(words)
    assert not any(line.endswith("×") or line.split()[0] in ("%", "s", "KiB") for line in lines)


def test_long_facts_go_on_below(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("cotrans_cli.display.facts.result_console", lambda: Console(width=40, force_terminal=True))
    path = "/a/folder/with/a/long/name/and/another/" + "x" * 30
    print_facts([("file", path), ("features", "musicnn+logmel, one row every 0.25 s")])
    first, second, third, *rest = [Text.from_ansi(line).plain for line in capsys.readouterr().out.splitlines()]
    assert [line[10:].strip() for line in (first, second, third)] == [path[:28], path[28:56], path[56:]]
    assert [line[10:].strip() for line in rest] == ["musicnn+logmel, one row", "every 0.25 s"]


@pytest.mark.parametrize("width", [None, 60, 80, 120])
def test_an_epoch_is_one_line(width: int | None) -> None:
    scores = Scores(loss=0.306, accuracy=0.9565, accuracy_mean=1.0, accuracy_vote=1.0)
    event = EpochDone(12, 120, 9.1e-4, 0.868, 1.0, scores, True, 101.5, 30.0)
    line = epoch_line(event, width)
    assert line.startswith("* epoch  12  loss 0.868 / 0.306  accuracy 95.65 %") and len(line) <= (width or 120)
    assert ("lr 0.00091" in line) == (width in (None, 120)) and ("vote" in line) == (width in (None, 120))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_all_epochs_have_the_same_columns(width: int) -> None:
    columns = set()
    for rate, seconds, score in ((1e-3, 0.4, 0.8), (9.1e-4, 101.5, 1.0)):
        scores = Scores(loss=0.306, accuracy=score, accuracy_mean=score, accuracy_vote=score)
        line = epoch_line(EpochDone(12, 120, rate, 0.868, 1.0, scores, True, seconds, 30.0), width)
        assert len(line) <= width
        columns.add(tuple(name for name in ("accuracy", "mean", "vote", "lr ", " s") if name in line))
    assert len(columns) == 1
    ends = [epoch_line(EpochDone(1, 9, rate, 1.0, 1.0, None, True, 1.0, 1.0), width) for rate in (1e-3, 9.1e-4)]
    assert len(set(map(len, ends))) == 1


def timers() -> list[threading.Timer]:
    return [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_only_what_takes_longer_than_a_moment_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cotrans_cli.display.console.A_MOMENT", 60.0)
    with note_if_slow("looking for recordings"):
        (timer,) = timers()
    timer.join(30)
    assert not timer.is_alive() and capsys.readouterr().err == ""
    monkeypatch.setattr("cotrans_cli.display.console.A_MOMENT", 0.01)
    with note_if_slow("looking for recordings"):
        for timer in timers():
            timer.join(30)  # until it has spoken
    assert capsys.readouterr().err == "looking for recordings\n"


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
