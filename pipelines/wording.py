"""Pieces of messages: short lists, text of files on one line, the nearest name to a mistyped one."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence


def listed(names: Sequence[str], most: int = 6, separator: str = ", ") -> str:
    """The first few of many names, in one line."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(map(one_line, names[:most])) + more


def alternatives(names: Sequence[str]) -> str:
    """ "gtzan, folder or digits"."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def all_of(names: Sequence[str]) -> str:
    """ "gtzan, folder and digits"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def counted(number: int, noun: str) -> str:
    """ "1 recording", "2,000 recordings"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def quantity(count: float) -> str:
    """A large number with three digits: 9.85 M."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if count >= size:
            value = count / size
            return f"{value:.{max(0, 2 - int(math.log10(value)))}f}{unit}"
    return f"{count:.0f}"


def memory(count: int) -> str:
    """Bytes for people."""
    for size, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def visible(text: str) -> str:
    """Text with everything that is no letter or sign written out: an escape as \\x1b, a line end as \\n.

    Names of files and classes may hold anything, and a terminal obeys what it is sent.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def visible_lines(text: str) -> str:
    """As `visible`, for text of several lines."""
    return text if text.isprintable() else "\n".join(map(visible, text.split("\n")))


def one_line(text: str, limit: int = 300) -> str:
    """Text out of a file, fit to be printed: names in a file may hold anything, line ends and escapes included."""
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that a mistyped one is likely to mean. cutoff: how alike they must be, 0 to 1."""
    names = list(known)
    if len(name) > 2 and (longer := [known for known in names if known.lower().startswith(name.lower())]):
        return longer[0]
    for text in (name, name.lower(), name.lower().replace("_", "-")):
        if matches := difflib.get_close_matches(text, names, n=1, cutoff=cutoff):
            return matches[0]
    return None


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", cutoff: float = 0.6) -> str:
    """The end of a message about an unknown name: the nearest one, or `otherwise` where none is near."""
    meant = nearest(name, known, cutoff)
    return otherwise if meant is None else f"; did you mean '{meant}'?"
