"""Output that never fails for want of a letter: UTF-8 in files and pipes, look-alikes on terminals without it."""

from __future__ import annotations

import codecs
import os
import sys
from typing import TextIO

HANDLER = "cotrans-look-alike"
UNNAMEABLE = "backslashreplace"  # bytes of file names that are no letters in any alphabet, as \\udcXX
LOOK_ALIKES = {
    "–": "-",
    "—": "-",
    "−": "-",
    "…": "...",
    "×": "x",
    "·": ".",
    "±": "+-",
    "µ": "u",
    "→": "->",
    "≥": ">=",
    "≤": "<=",
    "─": "-",
    "━": "-",
    "│": "|",
    "┃": "|",
    "╭": "+",
    "╮": "+",
    "╯": "+",
    "╰": "+",
    "█": "#",
    "▉": "#",
    "▊": "#",
    "▋": "#",
    "▌": "#",
    "▍": "|",
    "▎": "|",
    "▏": "|",
    "░": ".",
    "▒": ":",
    "▓": "#",
    "▀": '"',
    "▄": "_",
    "●": "*",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "é": "e",
    "ö": "o",
    "ü": "u",
    "ä": "a",
}


def prepare_output() -> None:
    """Make standard output and standard error take every text. To be called once, before anything is printed."""
    _occupy_closed()
    codecs.register_error(HANDLER, _look_alike)
    for stream in (sys.stdout, sys.stderr):
        if stream is None or not hasattr(stream, "reconfigure"):
            continue
        if _takes_all(stream):
            stream.reconfigure(errors=UNNAMEABLE)
        elif stream.isatty():
            stream.reconfigure(errors=HANDLER)
        else:  # a program reads it: what is written must not depend on the locale
            stream.reconfigure(encoding="utf-8", errors=UNNAMEABLE)


def _occupy_closed() -> None:
    """Put nothing where standard input, output or error is closed: the next file that is opened would take its place,
    and get what libraries print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one


def _takes_all(stream: TextIO) -> bool:
    try:
        return codecs.lookup(stream.encoding or "ascii").name in ("utf-8", "utf-16", "utf-32")
    except LookupError:
        return False


def _look_alike(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    encoding = codecs.lookup(error.encoding)
    text = "".join(LOOK_ALIKES.get(letter, "?") for letter in error.object[error.start : error.end])
    encoding.encode(text)  # the look-alikes themselves are plain
    return text, error.end


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours where there are any."""
    minutes, rest = divmod(round(seconds, 1), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02d}:{rest:04.1f}" if hours else f"{minutes}:{rest:04.1f}"


def shortened(text: str, width: int) -> str:
    """A name in at most `width` columns: of a longer one the end, which tells it from others."""
    return text if len(text) <= width else f"…{text[len(text) - width + 1 :]}"
