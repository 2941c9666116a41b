"""Facts about one thing, a name and a text each: a table on a terminal, one line each elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from cotrans_cli.display.console import print_line, result_console
from cotrans_cli.display.line_breaks import broken
from pipelines.wording import visible

PADDING = 2  # columns after each column


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Write facts to stdout."""
    rows = [(name, visible(text)) for name, text in facts]
    console = result_console()
    if not console.is_terminal:
        width = max(len(name) for name, _ in rows)
        for name, text in rows:
            print_line(f"{name:{width}}  {text}")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, padding=(0, PADDING, 0, 0))
    width = console.width - max(len(name) for name, _ in rows) - 2 * PADDING
    for name, text in rows:
        # What is longer than a line by itself, a path, goes on in the next: a part of it is no path.
        shown = Text("\n".join(broken(text, max(width, 1))), overflow="fold")
        table.add_row(Text(name, style="bold"), shown)
    console.print(table)
