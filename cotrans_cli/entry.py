"""Where `cotrans` starts: signals are answered from the first moment on, also while everything else is imported."""

from __future__ import annotations

import os
import signal
from types import FrameType

_IMPORTS = "<frozen importlib._bootstrap>"  # the file that importing code stands in, as frames name it
# What ends a command, and how that is said.
ENDINGS: dict[int, str] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Interrupted(KeyboardInterrupt):
    """Somebody pressed Ctrl-C or sent SIGTERM; each has its own exit code.

    Not a plain KeyboardInterrupt: where that leaves an `eval` or `exec` of text, Python notes it for good (typer
    evaluates the annotations of every command so), and kills itself at the end whatever the exit code.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.signal = number


def exit_code(number: int) -> int:
    """What a program that was ended by a signal returns, as shells report it."""
    return 128 + number


def main() -> None:
    """Run the command line and exit."""
    for number in ENDINGS:
        signal.signal(number, _end)
    # numpy's own products are small (mel bands): its threads would spin beside PyTorch's and cost more than they bring.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from cotrans_cli.main import main

    main()


def _end(number: int, frame: FrameType | None) -> None:
    """End the command from wherever it is; while something is imported, on the spot.

    An exception in the middle of an import may be swallowed or come out as another one, and there is nothing to save:
    commands that have begun to write listen to signals themselves, or leave what the next run cleans up.
    """
    if _importing(frame):
        try:
            os.write(2, f"cotrans: error: {ENDINGS[number]}\n".encode())
        finally:
            os._exit(exit_code(number))
    raise Interrupted(number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS:
            return True
        frame = frame.f_back
    return False
