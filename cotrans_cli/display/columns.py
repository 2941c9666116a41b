"""Columns that fit the terminal: a table that is too wide goes below itself in parts, and no word is cut."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from cotrans_cli.display.console import on_terminal
from cotrans_cli.display.line_breaks import broken
from pipelines.wording import visible

WIDEST = 10_000  # a file or a pipe has room for everything


def room() -> int:
    """Columns of the terminal; a file gets tables whole."""
    return shutil.get_terminal_size().columns if on_terminal() else WIDEST


def parts_that_fit(widths: Sequence[int], available: int, kept: int = 1) -> list[list[int]]:
    """Indices of the columns of each part. The first `kept` columns stand in front of every part."""
    base = sum(widths[:kept])
    parts: list[list[int]] = [[]]
    used = base
    for index in range(kept, len(widths)):
        if parts[-1] and used + widths[index] > available:
            parts.append([])
            used = base
        parts[-1].append(index)
        used += widths[index]
    return parts


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], text: Sequence[int] = (0,), available: int | None = None
) -> list[str]:
    """Lines of aligned columns: those in `text` to the left, numbers to the right."""
    header, rows = list(map(visible, header)), [list(map(visible, row)) for row in rows]
    widths = [max(len(row[index]) for row in (header, *rows)) for index in range(len(header))]
    lines: list[str] = []
    for part in parts_that_fit([width + 2 for width in widths], (room() if available is None else available) + 2):
        if lines:
            lines.append("")
        for row in (header, *rows):
            cells = [
                f"{row[index]:<{widths[index]}}" if index in text else f"{row[index]:>{widths[index]}}"
                for index in (0, *part)
            ]
            lines.append("  ".join(cells).rstrip())
    return lines


def wrapped(text: str, indent: str = "", available: int | None = None) -> list[str]:
    """A paragraph in lines that fit, broken between words."""
    width = min(room() if available is None else available, WIDEST)
    return broken(text, width, indent, indent)
