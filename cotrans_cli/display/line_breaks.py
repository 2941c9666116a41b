"""Where a line that is too long is broken: between words, and never between a number and its unit."""

from __future__ import annotations

import re
import textwrap

UNIT = "s|ms|µs|h|Hz|fps|dB|bytes|KB|KiB|MB|MiB|GB|GiB"
JOINED = re.compile(rf"(?<=\d) (?=%|(?:{UNIT})(?!\w))|(?<=×) (?=\d)")
GLUE = "\N{NO-BREAK SPACE}"  # textwrap takes it for a letter


def broken(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most `width` columns, as far as words allow; first, rest: what they begin with."""
    lines = textwrap.wrap(
        JOINED.sub(GLUE, text),
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(GLUE, " ") for line in lines]
