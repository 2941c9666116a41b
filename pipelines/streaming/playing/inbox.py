"""Where the rows of all sources wait for the model: one bounded queue for each row of the batch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from threading import Condition, Event, Lock
from typing import TypeVar

from pipelines.streaming.messages import Ended, Row

Taken = TypeVar("Taken")
OnDropped = Callable[[int, int], None]  # source, rows
PATIENCE = 0.2  # seconds between looks at whether the stream is to stop


class Inbox:
    """Sources put rows in from their threads; the model takes one from each at a time, or runs of them."""

    def __init__(
        self,
        slots: int,
        capacity: int,
        stop: Event,
        on_dropped: OnDropped,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """capacity: rows of each slot that may wait and may not be dropped. now: the clock of `Row.complete`."""
        self._queues: list[deque[Row | Ended]] = [deque() for _ in range(slots)]
        self._open = [True] * slots
        self._awaited = [1] * slots  # items in a queue at which the model is to look at it
        self._capacity = capacity
        self._stop = stop
        self._on_dropped = on_dropped
        self._now = now
        lock = Lock()
        self._filled = Condition(lock)  # the model waits for it
        self._drained = Condition(lock)  # sources wait for it

    def put(self, slot: int, *items: Row | Ended) -> None:
        """Add items. A full queue makes the caller wait; rows that may be dropped make way for it when they are late.

        What may be dropped is bounded by its age, not by its number: a burst of fresh rows is not late.
        """
        queue = self._queues[slot]
        with self._filled:
            for item in items:
                if isinstance(item, Row) and item.longest_wait is not None:
                    waiting = _of_source(queue, item.source)
                    if waiting and self._late(waiting[0]):
                        item = self._skip(queue, waiting, item)
                else:
                    while len(queue) >= self._capacity and not self._stop.is_set():
                        self._drained.wait(PATIENCE)
                queue.append(item)
                if len(queue) >= self._awaited[slot] or not isinstance(item, Row) or item.restart:
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
        """The oldest item of every slot that has one, or a newer one where that is too late; empty at the end."""

        def ready() -> list[tuple[int, Row | Ended]]:
            return [(slot, self._next(queue)) for slot, queue in enumerate(self._queues) if queue]

        # A source that was full refills its queue by the half: fewer threads take turns.
        return self._await(ready, self._capacity // 2)

    def take_runs(self, longest: Callable[[int, Row], int]) -> list[tuple[int, list[Row] | Ended]]:
        """Of every slot that has them, rows that follow one another, or the end of a source; empty at the end.

        longest: from a slot and its oldest row to the length of a run. A run is shorter only where its source ends or
        its window restarts, so its length does not depend on who is faster. None of its rows may be late.
        """

        def ready() -> list[tuple[int, list[Row] | Ended]]:
            runs = ((slot, self._run(slot, queue, longest)) for slot, queue in enumerate(self._queues) if queue)
            return [(slot, run) for slot, run in runs if run is not None]

        return self._await(ready, self._capacity)

    def _await(self, ready: Callable[[], list[tuple[int, Taken]]], refill: int) -> list[tuple[int, Taken]]:
        """What `ready` takes out, as soon as there is any; empty at the end.

        refill: sources that wait for room are woken when a queue that something was taken of has no more than this.
        """
        with self._filled:
            while not self._stop.is_set():
                if taken := ready():
                    if any(len(self._queues[slot]) <= refill for slot, _ in taken):
                        self._drained.notify_all()
                    return taken
                if not any(self._open):
                    return []
                self._filled.wait(PATIENCE)
            return []

    def _run(
        self, slot: int, queue: deque[Row | Ended], longest: Callable[[int, Row], int]
    ) -> list[Row] | Ended | None:
        """Take the next run of a slot; None: more of it is still to come."""
        oldest = queue[0]
        if isinstance(oldest, Ended):
            queue.popleft()
            return oldest
        length = min(longest(slot, oldest), self._capacity)
        run = [oldest]
        over = not self._open[slot]
        for item in islice(queue, 1, length):
            if isinstance(item, Ended) or item.restart:
                over = True
                break
            run.append(item)
        if len(run) < length and not over:
            self._awaited[slot] = length
            return None
        self._awaited[slot] = 1
        for _ in run:
            queue.popleft()
        return run

    def _next(self, queue: deque[Row | Ended]) -> Row | Ended:
        """Take the oldest item; skip to the newest row of its source when it has waited too long."""
        oldest = queue[0]
        if isinstance(oldest, Row) and self._late(oldest):
            *late, newest = _of_source(queue, oldest.source)
            newest = self._skip(queue, late, newest)
            queue.popleft()
            return newest
        return queue.popleft()

    def _late(self, row: Row) -> bool:
        return row.longest_wait is not None and self._now() - row.complete > row.longest_wait

    def _skip(self, queue: deque[Row | Ended], dropped: list[Row], newest: Row) -> Row:
        """Drop rows in favour of a newer one of their source, which restarts the window if one of them would have."""
        for row in dropped:
            queue.remove(row)
        if dropped:
            self._on_dropped(newest.source, len(dropped))
        return replace(newest, restart=newest.restart or any(row.restart for row in dropped))


def _of_source(queue: deque[Row | Ended], source: int) -> list[Row]:
    return [item for item in queue if isinstance(item, Row) and item.source == source]
