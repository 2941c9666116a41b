"""Keys that are pressed during the live view are not written into it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")

# The child of `pty.fork` has the terminal; one of its own children, in a group of its own, is in the background.
PROGRAM = """
import os, sys, termios
from cotrans_cli.display.silent_keys import silent_keys
def echo():
    return bool(termios.tcgetattr(0)[3] & termios.ECHO)
if {background} and os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
if {background}:
    os.setpgid(0, 0)
try:
    with silent_keys():
        inside = echo()
        if {fails}:
            raise ValueError
except ValueError:
    pass
sys.exit(0 if inside == {background} and echo() else 7)
"""


def ended(background: bool, fails: bool) -> int:
    child, mine = pty.fork()
    if child == 0:
        program = PROGRAM.format(background=background, fails=fails)
        os.execv(sys.executable, [sys.executable, "-c", program])
    try:
        while os.read(mine, 1000):
            pass
    except OSError:  # the other side is closed
        pass
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_the_terminal_is_silent_in_the_foreground_alone_and_as_before_at_the_end(background: bool, fails: bool) -> None:
    """In the background (`&`) whoever changes the terminal is stopped."""
    assert ended(background, fails) == 0


def test_without_a_terminal_nothing_happens() -> None:
    program = "from cotrans_cli.display.silent_keys import silent_keys\nwith silent_keys(): print('drawn')"
    for command in ([sys.executable, "-c", program], ["sh", "-c", 'exec "$0" "$@" <&-', sys.executable, "-c", program]):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        assert done.stdout == b"drawn\n", done.stderr
