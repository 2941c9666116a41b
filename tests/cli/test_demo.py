"""The first thing that a new user sees."""

from __future__ import annotations

import pytest

from cotrans_cli.main import run


def test_it_plays_and_says_what_to_try_next_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--fast", "--plain"]) == 0
    said = capsys.readouterr()
    assert "clock_tick" in said.out and "helicopter" in said.out
    lines = said.err.splitlines()
    assert "That was a continual transformer: four times a second, one token in and one" in lines
    assert "  cotrans stream YOUR_FILE.mp4                   or a URL, camera:0, mic:" in lines
    assert "\\n" not in said.err  # a line break that is written out
