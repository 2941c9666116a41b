"""Facts about one thing, a name and a text each: a table on a terminal, one line each elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from cotrans_cli.display.console import print_line, result_console
from pipelines.wording import visible


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

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, text in rows:
        table.add_row(Text(name, style="bold"), Text(text))
    console.print(table)
