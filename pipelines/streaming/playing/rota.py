"""Whose turn it is, for the threads that play the sources of some slots together."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock

from pipelines.features.joint import FeatureStream
from pipelines.streaming.playing.turns import PATIENCE, Bell, Computed, Turns, computed

# Seconds. The turns of several sources begin together, at multiples of it: fewer and larger batches, for less delay
# than a piece of sound takes.
BEAT = 0.015
# Seconds between two sources that begin, where many do. The first rows of a source may take ten times as long as those
# that follow, and all at once would be late for it.
JOINING = 0.03


@dataclass(frozen=True, eq=False)
class Taken:
    """What a thread does next."""

    due: list[int]  # slots whose turn it is
    asking: dict[int, FeatureStream]  # slots that want their rows, to be computed together


class Rota:
    """One thread at a time waits for the next turns and takes all of them; while it plays them, another one waits.

    So there is one large batch where one thread is enough, and as many threads at work as it takes. Sources begin one
    after the other, each when no turn is overdue.
    """

    def __init__(self, slots: Mapping[int, Turns[None]], bell: Bell) -> None:
        self._slots, self._bell = slots, bell
        self._waiting = Lock()  # of the thread that waits for the next turns
        self._rung: set[int] = set()  # its own: slots that were rung for and have not had their turn since
        self._lock = Lock()  # of all that follows
        self._joining = deque(slots)
        self._next_joins = 0.0  # monotonic time
        self._due: dict[int, float] = {}  # the monotonic time of a slot's next turn
        self._asking: dict[int, FeatureStream] = {}
        self._playing = 0  # slots that a thread has taken
        self._until = 0.0  # the monotonic time that is waited for

    def take(self) -> Taken | None:
        """All that is to do now, or soon; None: all sources are over."""
        with self._waiting:
            while (first := self._first()) is not None:
                self._pause(first)
                if (taken := self._taken()) is not None:
                    return taken
            return None

    def play(self, slot: int, answer: Computed | Exception | None) -> FeatureStream | None:
        """Give a slot that was taken its turn. A stream whose rows it wants: `answer` it next, or let others `ask`."""
        try:
            player = self._slots[slot]
            wanted = player.throw(answer) if isinstance(answer, Exception) else player.send(answer)
        except StopIteration:
            wanted = None
        if isinstance(wanted, FeatureStream):
            return wanted
        self._leave(slot, wanted)
        return None

    def ask(self, slot: int, stream: FeatureStream) -> None:
        """A slot that was taken wants rows, to be computed with what comes next."""
        with self._lock:
            self._playing -= 1
            self._asking[slot] = stream
        self._bell.rouse()

    def _leave(self, slot: int, due: float | None) -> None:
        """A slot that was taken has its next turn at a monotonic time, or is over."""
        with self._lock:
            self._playing -= 1
            if due is not None:
                self._due[slot] = due
            over = not (self._due or self._asking or self._joining or self._playing)
            sooner = due is not None and due < self._until
        if over or sooner:
            self._bell.rouse()

    def _first(self) -> float | None:
        """The monotonic time at which there is something to do, as far as is known; None: all is over."""
        with self._lock:
            if not (self._due or self._asking or self._joining or self._playing):
                return None
            now = time.monotonic()
            first = 0.0 if self._asking else min(self._due.values(), default=math.inf)
            if self._joining:
                idle = first > now
                if idle and (now >= self._next_joins or not (self._due or self._playing)):
                    self._due[self._joining.popleft()] = first = now
                    self._next_joins = now + JOINING
                elif idle:
                    first = min(first, self._next_joins)
            self._until = min(first, now + PATIENCE)
            return self._until

    def _pause(self, first: float) -> None:
        """Wait for the first turn that is due, or for the bell."""
        if len(self._slots) > 1:
            now = time.monotonic()
            first = math.ceil(first / BEAT) * BEAT
            self._bell.rest(min(first, math.ceil(now / BEAT) * BEAT))
        self._rung |= self._bell.wait(first)

    def _taken(self) -> Taken | None:
        """Take what is to do now."""
        with self._lock:
            now = time.monotonic()
            due = [slot for slot, at in self._due.items() if at <= now or slot in self._rung]
            asking, self._asking = self._asking, {}
            for slot in due:
                del self._due[slot]
            self._rung.difference_update(due)
            self._playing += len(due) + len(asking)
            return Taken(due, asking) if due or asking else None


def take_turns(rota: Rota) -> None:
    """Play the sources of a rota to their ends: what each of its threads does."""
    while (taken := rota.take()) is not None:
        asking = taken.asking
        for slot in taken.due:
            if (stream := rota.play(slot, None)) is not None:
                asking[slot] = stream
        for slot, answer in computed(asking).items():
            if (stream := rota.play(slot, answer)) is not None:
                rota.ask(slot, stream)
