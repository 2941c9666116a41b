"""What a person or a program sees of an evaluation: a bar with the time that is left, tables, notes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cotrans_cli.display.columns import parts_that_fit
from cotrans_cli.display.console import note, print_json, print_line, result_console, status_console

if TYPE_CHECKING:
    from pipelines.evaluation.comparison import Comparison
    from pipelines.evaluation.scores.scoring import Evaluation
    from pipelines.evaluation.tables.report import Table
    from pipelines.running.runner import Mode

NOTED_EVERY = 20  # recordings whose features were extracted: a line where there is no bar
NOTED_AFTER = 30.0  # seconds in which a model ran and nothing was said: a line, too


class EvaluationProgress:
    """A bar for the features and one for each model and mode, on a terminal; a line now and then elsewhere."""

    def __init__(self, bar: Any | None, quiet: bool) -> None:
        self._bar, self._quiet = bar, quiet
        self._tasks: dict[str, Any] = {}
        self._told = time.monotonic()

    def on_item(self, done: int, total: int, name: str) -> None:
        """Features of a recording are being extracted."""
        self._move("features", done, total)
        if self._bar is None and not self._quiet and done and done % NOTED_EVERY == 0:
            note(f"features: {done} of {total} recordings")

    def on_rows(self, model: str, mode: Mode, done: int, total: int) -> None:
        """A model has run over some rows."""
        self._move(f"{model}, {mode}", done, total)
        if self._bar is None and not self._quiet and time.monotonic() - self._told >= NOTED_AFTER:
            self._told = time.monotonic()
            note(f"{model}, {mode}: {done:,} of {total:,} rows")

    def _move(self, what: str, done: int, total: int) -> None:
        if self._bar is None:
            return
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)
        if done >= total:
            self._bar.remove_task(self._tasks.pop(what))


@contextmanager
def evaluation_progress(quiet: bool) -> Iterator[EvaluationProgress]:
    """The bars for as long as an evaluation lasts."""
    console = status_console()
    if quiet or not console.is_terminal:
        yield EvaluationProgress(None, quiet)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from cotrans_cli.display.time_left import TimeLeft

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeLeft(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield EvaluationProgress(bar, quiet)


def print_comparison(comparison: Comparison, output: str, quiet: bool) -> None:
    """The table of models. output: json, csv, markdown or table."""
    from pipelines.evaluation.tables.comparison_report import (
        agreement_lines,
        all_notes,
        csv_table,
        loss_lines,
        tables,
        to_dict,
    )
    from pipelines.evaluation.tables.report import to_csv
    from pipelines.evaluation.tables.spotting_report import spotting_lines

    if output == "json":
        print_json(to_dict(comparison))
        return
    _print_notes(all_notes(comparison), quiet)
    if output == "csv":
        print_line(to_csv(csv_table(comparison)).rstrip("\n"))
    else:
        lines = [*agreement_lines(comparison), *loss_lines(comparison)]
        if len(comparison.rows) == 1:
            lines.append(comparison.rows[0].first.evaluation.headline())
        lines += spotting_lines(comparison)
        _print_tables(tables(comparison), lines, output)


def print_evaluation(evaluation: Evaluation, output: str, quiet: bool) -> None:
    """The scores of predictions from a file."""
    from pipelines.evaluation.tables.report import to_csv

    if output == "json":
        print_json(evaluation.to_dict())
        return
    _print_notes(evaluation.notes, quiet)
    if output == "csv":
        print_line(to_csv(evaluation.tables()[0][1]).rstrip("\n"))
    else:
        _print_tables(evaluation.tables(), [evaluation.headline()], output)


def _print_notes(notes: Iterable[str], quiet: bool) -> None:
    """What a reader must know stands before the figures, which are believed once they are read."""
    if not quiet:
        for line in notes:
            note(f"note: {line}")


def _print_tables(tables: list[tuple[str, Table]], lines: list[str], output: str) -> None:
    from pipelines.evaluation.tables.report import to_markdown

    for number, (title, table) in enumerate(tables):
        if output == "markdown":
            print_line(("\n" if number else "") + f"{title}\n\n{to_markdown(table)}".rstrip("\n"))
        else:
            _print_table(title, table)
    if output == "markdown":
        print_line()
    for line in lines:
        print_line(line)


def _print_table(title: str, table: Table) -> None:
    """A table that is too wide for the terminal goes below itself in parts; a file gets it whole."""
    from rich.cells import cell_len

    from pipelines.evaluation.tables.report import format_cell

    console = result_console()
    cells = [[format_cell(cell) for cell in row] for row in table.rows]
    widths = [
        max(cell_len(text) for text in (name, *(row[index] for row in cells))) + 3
        for index, name in enumerate(table.columns)
    ]
    whole = sum(widths) + 2
    if not console.is_terminal:
        console.width = max(console.width, whole, cell_len(title) + 1)
    for part in parts_that_fit(widths, console.width - 2):
        console.print(_rich_table(title, table.columns, cells, part))
        title = ""


def _rich_table(title: str, columns: tuple[str, ...], cells: list[list[str]], part: list[int]) -> object:
    """The first column and some of the others."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(title=Text(title) if title else None, title_justify="left", box=box.SIMPLE_HEAD)
    for index in (0, *part):
        shown.add_column(Text(columns[index]), justify="left" if index == 0 else "right", no_wrap=True)
    for number, row in enumerate(cells):
        last = number == len(cells) - 1 and row[0] in ("mean", "all")
        shown.add_row(*(Text(row[index]) for index in (0, *part)), style="bold" if last else None)
    return shown
