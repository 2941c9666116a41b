"""Ending a stream from the keyboard or by a signal."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from cotrans_cli.entry import Interrupted

if TYPE_CHECKING:
    from pipelines.streaming.run import StreamRun


@contextmanager
def stopping(run: StreamRun) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the stream cleanly; yields the signals that came. A second one ends it at once."""
    caught: list[int] = []

    def stop(number: int, _: object) -> None:
        if caught:
            raise Interrupted(number)
        caught.append(number)
        # Not here: the handler may have interrupted the very code that holds the lock that stopping needs.
        Thread(target=run.stop, daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
