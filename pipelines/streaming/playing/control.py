"""What is asked of one source while it plays: to stand still for a while, or to end."""

from __future__ import annotations

import time
from collections.abc import Generator
from threading import Event

from pipelines.streaming.messages import StoppedError
from pipelines.streaming.playing.turns import a_while


class SourceControl:
    """Asked from any thread; the thread that plays the source obeys at its next piece of media or row."""

    def __init__(self) -> None:
        self.stop = Event()  # the source is to end
        self._going = Event()
        self._going.set()

    @property
    def paused(self) -> bool:
        return not (self._going.is_set() or self.stop.is_set())

    def pause(self, paused: bool = True) -> None:
        """Stand still, or go on."""
        if paused:
            self._going.clear()
        else:
            self._going.set()

    def stand_still(self) -> Generator[float, None, float]:
        """Turns for as long as the source is paused; the seconds that it took."""
        if not self.paused:
            return 0.0
        begin = time.monotonic()
        while not self._going.is_set():
            if self.stop.is_set():
                raise StoppedError
            yield a_while()
        return time.monotonic() - begin
