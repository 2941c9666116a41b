"""A bar of progress for streams of files whose predictions go elsewhere: to a file, a video, a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cotrans_cli.display.console import status_console
from cotrans_cli.display.terminal_text import clock

if TYPE_CHECKING:
    from rich.progress import Progress

    from pipelines.streaming.output.summary import Statistics

ROOM_FOR_PACE = 80  # columns of the terminal: with fewer, the time that is left would be cut off


class StreamBar:
    """Media seconds that are done, of those of all sources; without an end that is known, only how many."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("stream", total=None, at="")
        self._statistics: Statistics | None = None

    def begin(self, statistics: Statistics) -> None:
        self._statistics = statistics

    def update(self) -> None:
        """Something was predicted."""
        if self._statistics is None:
            return
        sources = self._statistics.sources
        done = sum(source.seconds for source in sources)
        lengths = [source.length for source in sources]
        total = None if None in lengths else sum(length for length in lengths if length is not None)
        # Of the same width all the time: the bar would jump.
        at = clock(done) if total is None else f"{clock(done):>{len(clock(total))}} of {clock(total)}"
        pace = done / max(self._statistics.wall_seconds, 1e-6)
        if self._progress.console.width >= ROOM_FOR_PACE:
            at += f" {f'× {pace:.1f}':>8} real time"
        self._progress.update(self._task, completed=done, total=total, at=at)


@contextmanager
def stream_bar(wanted: bool) -> Iterator[StreamBar | None]:
    """A bar on stderr while the block runs, where that is a terminal."""
    console = status_console()
    if not wanted or not console.is_terminal or console.is_dumb_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from cotrans_cli.display.time_left import TimeLeft

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[at]}"), TimeLeft("· "))
    with Progress(*columns, console=console, transient=True) as progress:
        yield StreamBar(progress)
