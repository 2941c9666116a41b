"""Keys that are pressed while a picture is drawn: the terminal would write them into it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent_keys() -> Iterator[None]:
    """Typed characters are not shown, and thrown away at the end. Ctrl-C and Ctrl-Z do what they do elsewhere.

    Nothing where standard input is no terminal, where the system has none of this, or in the background (`&`): the
    terminal is another's then, and who changes it is stopped.
    """
    try:
        import termios
    except ImportError:  # Windows
        yield
        return
    try:
        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
        mine = os.tcgetpgrp(number) == os.getpgrp()
    except (AttributeError, OSError, ValueError, termios.error):  # closed, or no terminal
        mine = False
    if not mine:
        yield
        return
    silent = list(before)
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(number, termios.TCSANOW, silent)
    try:
        yield
    finally:
        if os.tcgetpgrp(number) == os.getpgrp():
            termios.tcsetattr(number, termios.TCSAFLUSH, before)
