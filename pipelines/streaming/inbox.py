"""Where the rows of all sources wait for the model: one bounded queue for each row of the batch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from threading import Condition, Event, Lock

from pipelines.streaming.rows import Ended, Row

OnDropped = Callable[[int, int], None]  # source, rows
PATIENCE = 0.2  # seconds between looks at whether the stream is to stop


class Inbox:
    """Sources put rows in from their threads; the model takes at most one from each at a time."""

    def __init__(
        self,
        slots: int,
        capacity: int,
        stop: Event,
        on_dropped: OnDropped,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """capacity: rows of each slot that may wait. now: the clock that says how late rows are."""
        self._queues: list[deque[Row | Ended]] = [deque() for _ in range(slots)]
        self._open = [True] * slots
        self._capacity = capacity
        self._stop = stop
        self._on_dropped = on_dropped
        self._now = now
        lock = Lock()
        self._filled = Condition(lock)  # the model waits for it
        self._drained = Condition(lock)  # sources wait for it

    def put(self, slot: int, item: Row | Ended, longest_wait: float | None = None) -> None:
        """Add an item. A full queue makes the caller wait; with `longest_wait` its late rows are dropped instead."""
        queue = self._queues[slot]
        with self._filled:
            if longest_wait is None or isinstance(item, Ended):
                while len(queue) >= self._capacity and not self._stop.is_set():
                    self._drained.wait(PATIENCE)
            else:
                item = self._after_skip(queue, item, longest_wait)
            queue.append(item)
            self._filled.notify()

    def finish(self, slot: int) -> None:
        """Nothing more will come from this slot."""
        with self._filled:
            self._open[slot] = False
            self._filled.notify()

    def wake(self) -> None:
        """Let everybody see that the stream is to stop."""
        with self._filled:
            self._filled.notify_all()
            self._drained.notify_all()

    def take(self) -> list[tuple[int, Row | Ended]]:
        """The oldest item of every slot that has one; empty when nothing will come any more."""
        with self._filled:
            while not self._stop.is_set():
                ready = [(slot, queue.popleft()) for slot, queue in enumerate(self._queues) if queue]
                if ready:
                    # A source that was full refills its queue by the half: fewer threads take turns.
                    if any(len(self._queues[slot]) == self._capacity // 2 for slot, _ in ready):
                        self._drained.notify_all()
                    return ready
                if not any(self._open):
                    return []
                self._filled.wait(PATIENCE)
            return []

    def _after_skip(self, queue: deque[Row | Ended], newest: Row, longest_wait: float) -> Row:
        """Skip to now when the oldest row has waited too long, or when there is no room."""
        waiting = [item for item in queue if isinstance(item, Row) and item.source == newest.source]
        if not waiting:
            return newest
        late = self._now() - waiting[0].complete > longest_wait
        if not late and len(queue) < self._capacity:
            return newest
        others = [item for item in queue if item.source != newest.source]
        queue.clear()
        queue.extend(others)
        self._on_dropped(newest.source, len(waiting))
        return replace(newest, restart=newest.restart or any(row.restart for row in waiting))
