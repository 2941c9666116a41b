"""What is asked of one source while it plays: to stand still for a while, or to end."""

from __future__ import annotations

import time
from threading import Event

from pipelines.streaming.messages import StoppedError

PATIENCE = 0.1  # seconds between looks at whether the source is to end


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

    def stand_still(self) -> float:
        """Wait for as long as the source is paused; the seconds that it took."""
        if not self.paused:
            return 0.0
        begin = time.monotonic()
        while not self._going.wait(PATIENCE):
            if self.stop.is_set():
                raise StoppedError
        return time.monotonic() - begin
