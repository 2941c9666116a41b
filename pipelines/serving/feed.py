"""Server-sent events: one beat for all pages, whose length follows from what it costs.

A page that does not read is not waited for. Its connection takes what fits into the system's buffers, and the next
message to it is made when it has read: everything after the last one, or a fresh start where too much was missed.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator

from pipelines.serving.hub import LiveHub

SHORTEST_BEAT, LONGEST_BEAT = 0.1, 2.0  # seconds
SHARE = 0.02  # of one core that the server may take from the stream, roughly
MOST_WATCHERS = 400
SIGN_OF_LIFE = 15.0  # seconds without news after which a page hears that the connection stands
RETRY = 1000  # milliseconds after which a page that lost its connection tries again


class Feed:
    """Hands the messages of a hub to all pages. Everything here runs in the server's event loop."""

    def __init__(self, hub: LiveHub) -> None:
        self.watchers = 0
        self._hub = hub
        self._beat = asyncio.Event()
        self._closed = False
        self._made: tuple[tuple[int, int], bytes] | None = None  # the newest message, by its ends

    @property
    def full(self) -> bool:
        return self.watchers >= MOST_WATCHERS

    async def run(self) -> None:
        """Beat until `close`."""
        spent, told = time.thread_time(), time.monotonic()
        while not self._closed:
            if self._hub.collect(self.watchers > 0) or time.monotonic() - told > SIGN_OF_LIFE:
                told = time.monotonic()
                self._wake()
            # Everything that the server has done since the last beat, for pages and for whoever else asks.
            before, spent = spent, time.thread_time()
            await asyncio.sleep(min(LONGEST_BEAT, max(SHORTEST_BEAT, (spent - before) / SHARE)))

    def close(self) -> None:
        """Tell everybody the rest, and that nothing follows."""
        self._hub.collect(self.watchers > 0)
        self._closed = True
        self._wake()

    async def events(self, last: str) -> AsyncIterator[bytes]:
        """For one page, until it goes. last: what it heard last, by its own account."""
        self.watchers += 1
        try:
            number = self._number(last)
            if number is None:
                number = 0
                yield f"retry: {RETRY}\nevent: hello\ndata: {self._hub.hello()}\n\n".encode()
                yield self._message(0)
                number = self._hub.number
            while True:
                if self._hub.number > number:
                    message, number = self._message(number), self._hub.number
                    yield message
                elif self._closed:
                    yield b"event: bye\ndata: {}\n\n"
                    return
                else:
                    await self._beat.wait()
                    if self._hub.number == number:
                        yield b": still here\n\n"
        finally:
            self.watchers -= 1

    def _number(self, last: str) -> int | None:
        """The message that a page heard last; None: nothing of this stream."""
        known = re.fullmatch(r"([0-9a-f]{12})-([0-9]{1,15})", last)
        if known is None or known[1] != self._hub.run or int(known[2]) > self._hub.number:
            return None
        return int(known[2])

    def _message(self, number: int) -> bytes:
        """Everything after message `number`; most pages ask for the same, so it is made once."""
        ends = (number, self._hub.number)
        if self._made is None or self._made[0] != ends:
            text = f"id: {self._hub.run}-{ends[1]}\ndata: {self._hub.since(number)}\n\n"
            self._made = ends, text.encode()
        return self._made[1]

    def _wake(self) -> None:
        beat, self._beat = self._beat, asyncio.Event()
        beat.set()
