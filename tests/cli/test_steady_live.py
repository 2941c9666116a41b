"""The live view is written over itself, and leaves nothing of what was there before."""

from __future__ import annotations

import io
import re

from rich.console import Console
from rich.text import Text

from cotrans_cli.display.steady_live import SteadyLive

WIDTH = 20


class Changing:
    """As many lines as it is told."""

    lines: tuple[str, ...] = ()

    def __rich__(self) -> Text:
        return Text("\n".join(self.lines))


def screen(written: str) -> list[str]:
    """What a terminal shows, of the few codes that are needed here."""
    rows = [[" "] * WIDTH for _ in range(12)]
    row = column = 0
    for code, letter in re.findall(r"\x1b\[(\??\d*[A-Za-z])|([^\x1b])", written):
        if code.endswith("A"):
            row -= int(code[:-1])
        elif code == "2K":
            rows[row] = [" "] * WIDTH
        elif letter == "\r":
            column = 0
        elif letter == "\n":
            row, column = row + 1, 0
        elif letter:
            rows[row][column] = letter
            column += 1
    return ["".join(cells).rstrip() for cells in rows]


def test_a_view_is_written_over_the_one_before() -> None:
    console = Console(file=(file := io.StringIO()), width=WIDTH, height=12, force_terminal=True, color_system=None)
    shown = Changing()
    with SteadyLive(shown, console=console, auto_refresh=False) as live:
        for text in ("a long line/two/three", "b/two/three/four", "c/2", "d/3", "e"):
            first, shown.lines = not shown.lines, tuple(text.split("/"))
            before = len(file.getvalue())
            live.refresh()
            assert screen(file.getvalue())[: len(shown.lines) + 2] == [*shown.lines, "", ""]
            assert first or "\x1b[2K" not in file.getvalue()[before:]  # nothing is wiped out: it would flicker
        console.print("said above")
        assert screen(file.getvalue())[:3] == ["said above", "e", ""]


def test_a_view_that_ends_stays() -> None:
    console = Console(file=(file := io.StringIO()), width=WIDTH, height=12, force_terminal=True, color_system=None)
    shown = Changing()
    with SteadyLive(shown, console=console, auto_refresh=False):
        shown.lines = ("one", "two")
    console.print("after")
    assert screen(file.getvalue())[:4] == ["one", "two", "after", ""]
