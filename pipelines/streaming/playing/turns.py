"""Playing in turns: a thread plays several sources, and computes the rows that are due in them together.

A source that plays is a generator. It yields the monotonic time before which it has nothing to do, or a feature stream
whose rows it wants to have computed and then goes on with. Nothing in it waits otherwise, but for room in the inbox.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from threading import Condition
from typing import TypeAlias, TypeVar

from pipelines.features.extractor import Rows
from pipelines.features.joint import FeatureStream, rows_of_streams

# Seconds. The turns of several sources begin together, at multiples of it: fewer and larger batches, for less delay
# than a piece of sound takes.
BEAT = 0.02
# Seconds between two sources that begin, where many do. The first rows of a source may take ten times as long as those
# that follow, and all at once would be late for it.
JOINING = 0.04
PATIENCE = 0.1  # seconds between looks at whether the stream is to stop


@dataclass(frozen=True, eq=False)
class Computed:
    """The answer to a feature stream."""

    rows: Rows
    seconds: float  # that they took, or their part of a batch


Given = TypeVar("Given")
Turns: TypeAlias = Generator[float | FeatureStream, Computed | None, Given]


def a_while() -> float:
    """What a source yields that waits for something else than the clock; a bell may call it before."""
    return time.monotonic() + PATIENCE


class Bell:
    """Wakes the thread of some slots: something has come for one of them."""

    def __init__(self) -> None:
        self._condition = Condition()
        self._rung: set[int] = set()

    def ring(self, slot: int) -> None:
        """From any thread."""
        with self._condition:
            self._rung.add(slot)
            self._condition.notify()

    def wait(self, until: float) -> set[int]:
        """The slots that were rung for since the last call, if need be waiting for one until a monotonic time."""
        with self._condition:
            delay = until - time.monotonic()
            if delay > 0 and not self._rung:
                self._condition.wait(delay)
            rung, self._rung = self._rung, set()
            return rung


def take_turns(slots: Mapping[int, Turns[None]], bell: Bell) -> None:
    """Play the sources of some slots to their ends. They begin one after the other, each when no turn is overdue."""
    joining = deque(slots)
    next_joins = 0.0  # monotonic time
    due: dict[int, float] = {}  # the monotonic time of a slot's next turn
    asking: dict[int, FeatureStream] = {}
    while due or joining:
        now = time.monotonic()
        if joining and (not due or (now >= next_joins and not asking and min(due.values()) > now)):
            due[joining.popleft()] = now
            next_joins = now + JOINING
        rung = bell.wait(0.0) if asking else _pause(due, next_joins if joining else math.inf, bell)
        now = time.monotonic()
        for slot in [slot for slot, at in due.items() if slot not in asking and (at <= now or slot in rung)]:
            _advance(slots, slot, None, due, asking)
        answers, asking = _computed(asking), {}
        for slot, answer in answers.items():
            _advance(slots, slot, answer, due, asking)


def _pause(due: Mapping[int, float], next_joins: float, bell: Bell) -> set[int]:
    """Wait for the first turn that is due, a source that joins, or the bell; the slots that were rung for."""
    first = min(*due.values(), next_joins)
    if len(due) > 1:
        first = math.ceil(first / BEAT) * BEAT
        now = time.monotonic()
        time.sleep(max(0.0, min(first, math.ceil(now / BEAT) * BEAT) - now))  # even where one is rung for
    return bell.wait(first)


def _advance(
    slots: Mapping[int, Turns[None]],
    slot: int,
    answer: Computed | Exception | None,
    due: dict[int, float],
    asking: dict[int, FeatureStream],
) -> None:
    """Give a slot its turn: note what it wants next."""
    try:
        turn = slots[slot].throw(answer) if isinstance(answer, Exception) else slots[slot].send(answer)
    except StopIteration:
        del due[slot]
        return
    if isinstance(turn, FeatureStream):
        asking[slot] = turn
    else:
        due[slot] = turn


def _computed(asking: Mapping[int, FeatureStream]) -> dict[int, Computed | Exception]:
    """The rows of all streams in one batch. What goes wrong in it is told to each of them."""
    if not asking:
        return {}
    begin = time.monotonic()
    try:
        rows = rows_of_streams(list(asking.values()))
    except Exception as error:  # a source ends with it, as with any of its own
        return dict.fromkeys(asking, error)
    seconds = (time.monotonic() - begin) / len(asking)
    return {slot: Computed(values, seconds) for slot, values in zip(asking, rows, strict=True)}
