"""How a download is shown: by `weights get` and `data get`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cotrans_cli.display.console import note, status_console

if TYPE_CHECKING:
    from pipelines.download import Progress


@contextmanager
def download_progress(name: str) -> Iterator[Progress | None]:
    """A progress bar on a terminal; one plain line elsewhere."""
    console = status_console()
    if not console.is_terminal:
        note(f"fetching {name}")
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        "{task.description}",
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
