"""The first thing that a new user sees."""

from __future__ import annotations

import pytest

from cotrans_cli.commands.demo import NEXT
from cotrans_cli.display.console import note_lines
from cotrans_cli.main import run


def test_it_plays_and_says_what_to_try_next_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--fast", "--plain"]) == 0
    said = capsys.readouterr()
    assert "clock_tick" in said.out and "helicopter" in said.out
    lines = said.err.splitlines()
    assert any(line.startswith("That was a continual transformer: four times a second, one token in") for line in lines)
    assert "  cotrans stream YOUR_FILE.mp4                   or a URL, camera:0, mic:" in lines
    assert "\\n" not in said.err  # a line break that is written out


def test_what_to_try_next_fits_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    note_lines(NEXT, indent=4)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:3] == [
        "That was a continual transformer: four times a second, one",
        "token in and one prediction out. What to try next:",
    ]
    assert lines[3:5] == ["  cotrans stream YOUR_FILE.mp4                   or a URL,", "    camera:0, mic:"]
