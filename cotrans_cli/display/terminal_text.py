"""Output that never fails for want of a letter: UTF-8 in files and pipes, look-alikes on terminals without it."""

from __future__ import annotations

import codecs
import sys
from typing import TextIO

HANDLER = "cotrans-look-alike"
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
    codecs.register_error(HANDLER, _look_alike)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure") and not _takes_all(stream):
            if stream.isatty():
                stream.reconfigure(errors=HANDLER)
            else:  # a program reads it: what is written must not depend on the locale
                stream.reconfigure(encoding="utf-8")


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
