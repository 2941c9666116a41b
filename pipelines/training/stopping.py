"""Ending on Ctrl-C between two steps, so that what is saved is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedAtOnce(KeyboardInterrupt):
    """The second signal came before the step was over: nothing more was saved."""

    def __init__(self, number: int) -> None:
        super().__init__("stopped at once")
        self.signal = number


class StopRequest:
    """Set by the first signal; the second one ends the program in the usual way."""

    def __init__(self, on_request: Callable[[], None] | None = None) -> None:
        self.wanted = False
        self.signal: int = signal.SIGINT  # the one that came first
        self._on_request = on_request

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise StoppedAtOnce(number)
        self.wanted, self.signal = True, number
        if self._on_request is not None:
            self._on_request()


@contextmanager
def stop_request(on_request: Callable[[], None] | None = None) -> Iterator[StopRequest]:
    """Listen to Ctrl-C and to a polite kill. In a thread that gets no signals, nothing is listened to."""
    request = StopRequest(on_request)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, request) for number in SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
