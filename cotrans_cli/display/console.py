"""Where the command line writes: results to stdout, everything else to stderr."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

from cotrans_cli.display.line_breaks import broken
from pipelines.errors import InputError
from pipelines.untrusted.parsing import json_text
from pipelines.wording import visible, visible_lines

if TYPE_CHECKING:
    from rich.console import Console

# rich's own bars have yellow times, which nobody reads on white, and a rest that is heavier there than what is done.
BAR_STYLES = {
    "bar.complete": "#2f7fc1",
    "bar.finished": "#2f7fc1",
    "bar.pulse": "#2f7fc1",
    "bar.back": "#9a9a9a",
    "progress.elapsed": "none",
    "progress.remaining": "none",
    "progress.percentage": "none",
    "progress.download": "none",
    "progress.data.speed": "none",
}

REMARK = "#b5790a"  # can be read on black and on white, as the terminal's own yellow cannot
A_MOMENT = 1.0  # seconds that need no word
HANGING = 8  # columns by which the rest of a broken line of a result is indented


def result_console() -> Console:
    """A rich console for results (stdout)."""
    return _console(stderr=False)


def status_console() -> Console:
    """A rich console for progress and remarks (stderr)."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    from rich.console import Console
    from rich.segment import Segment
    from rich.theme import Theme

    class PlainConsole(Console):
        """Shows names as they are: whatever in them would steer a terminal is written out."""

        def render(self, renderable: Any, options: Any = None) -> Any:
            for segment in super().render(renderable, options):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(visible_lines(segment.text), segment.style)

    return PlainConsole(stderr=stderr, theme=Theme(BAR_STYLES))


def on_terminal() -> bool:
    """Whether a person reads standard output; nobody does where it is closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def note(message: str, indent: int = 0) -> None:
    """One plain line on stderr; nowhere if that is closed (`print` would take standard output instead).

    A terminal would break it in the middle of a word: there it is broken between words, and goes on at column `indent`.
    """
    if sys.stderr is None:
        return
    message = visible(message)
    print(_filled(message, indent) if sys.stderr.isatty() else message, file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def note_if_slow(message: str) -> Iterator[Callable[[], None]]:
    """A line on stderr where what is under way takes longer than a moment: nobody waits before an empty screen.

    What it gives calls the line off, where something else was said first.
    """
    timer = Timer(A_MOMENT, note, [message])
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def note_lines(text: str, indent: int = 0) -> None:
    """Several plain lines on stderr. indent: where those go on that are themselves indented and do not fit."""
    for line in text.splitlines():
        note(line, indent if line.startswith(" ") else 0)


def print_line(text: str = "") -> None:
    """One plain line on stdout, or several, flushed at once; what would steer a terminal is written out.

    A single line that is wider than the terminal is broken between words.
    """
    if sys.stdout is None:
        raise InputError("standard output is closed: there is nowhere to write the result")
    shown = visible_lines(text)
    print(_filled(shown, HANGING) if on_terminal() and "\n" not in shown else shown, flush=True)  # noqa: T201


def _filled(line: str, indent: int) -> str:
    """A line as several that fit the terminal; all but the first begin at column `indent`, where there is room."""
    width = shutil.get_terminal_size().columns
    hanging = " " * (indent if indent < width // 2 else 0)
    return "\n".join(broken(line, width, rest=hanging)) or line


def print_json(value: Any) -> None:
    """A result as indented JSON on stdout."""
    print_line(json_text(value, indent=2))
