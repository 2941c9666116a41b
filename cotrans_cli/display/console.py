"""Where the command line writes: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console


def result_console() -> Console:
    """A rich console for results (stdout)."""
    from rich.console import Console

    return Console()


def status_console() -> Console:
    """A rich console for progress and remarks (stderr)."""
    from rich.console import Console

    return Console(stderr=True)


def on_terminal() -> bool:
    """Whether a person reads standard output; nobody does where it is closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def note(message: str) -> None:
    """One plain line on stderr; nowhere if that is closed (`print` would take standard output instead).

    A terminal would break it in the middle of a word: there it is broken between words.
    """
    if sys.stderr is None:
        return
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        message = textwrap.fill(message, width, break_long_words=False, break_on_hyphens=False) or message
    print(message, file=sys.stderr, flush=True)  # noqa: T201


def print_line(text: str = "") -> None:
    """One plain line on stdout, flushed at once."""
    if sys.stdout is None:
        raise InputError("standard output is closed: there is nowhere to write the result")
    print(text, flush=True)  # noqa: T201


def print_json(value: Any) -> None:
    """A result as indented JSON on stdout."""
    print_line(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
