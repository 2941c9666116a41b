"""Keys that are pressed during the live view are not written into it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")

PROGRAM = """
import sys
from cotrans_cli.display.silent_keys import silent_keys
with silent_keys():
    print("drawn", flush=True)
    sys.stdin.readline()
    if {fails}:
        raise ValueError
"""


@pytest.mark.parametrize("fails", [False, True])
def test_a_key_is_not_shown_and_the_terminal_is_as_before(fails: bool) -> None:
    mine, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    program = [sys.executable, "-c", PROGRAM.format(fails=fails)]
    with subprocess.Popen(program, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None and running.stdout.readline() == b"drawn\n"
        assert not termios.tcgetattr(theirs)[3] & termios.ECHO
        os.write(mine, b"q\n")
        assert running.wait(60) == int(fails)
    assert termios.tcgetattr(theirs)[3] & termios.ECHO and termios.tcgetattr(theirs)[:4] == before[:4]
    os.set_blocking(mine, False)
    try:
        shown = os.read(mine, 100)
    except BlockingIOError:
        shown = b""
    assert b"q" not in shown
    os.close(mine)
    os.close(theirs)


@pytest.mark.parametrize("given", [subprocess.DEVNULL, None])
def test_without_a_terminal_nothing_happens(given: int | None) -> None:
    program = [sys.executable, "-c", PROGRAM.format(fails=False)]
    if given is None:  # closed, as under some services
        program = ["sh", "-c", 'exec "$0" "$@" <&-', *program]
    done = subprocess.run(program, stdin=given, capture_output=True, timeout=60)
    assert done.stdout == b"drawn\n" or b"readline" in done.stderr
