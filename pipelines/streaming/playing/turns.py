"""Playing in turns: a thread plays several sources, and computes the rows that are due in them together.

A source that plays is a generator. It yields the monotonic time before which it has nothing to do, or a feature stream
whose rows it wants to have computed and then goes on with. Nothing in it waits otherwise, but for room in the inbox.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from threading import Condition
from typing import TypeAlias, TypeVar

from pipelines.features.extractor import Rows
from pipelines.features.joint import FeatureStream, rows_of_streams

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
    """Wakes the thread that waits for a turn: something has come for one of the slots."""

    def __init__(self) -> None:
        self._condition = Condition()
        self._rung: set[int] = set()
        self._roused = False

    def ring(self, slot: int) -> None:
        """From any thread."""
        with self._condition:
            self._rung.add(slot)
            self._condition.notify()

    def rouse(self) -> None:
        """End the waiting, whoever it is for. From any thread."""
        with self._condition:
            self._roused = True
            self._condition.notify()

    def rest(self, until: float) -> None:
        """Wait until a monotonic time, even where a slot is rung for."""
        with self._condition:
            self._condition.wait_for(lambda: self._roused, max(0.0, until - time.monotonic()))

    def wait(self, until: float) -> set[int]:
        """The slots that were rung for since the last call, if need be waiting for one until a monotonic time."""
        with self._condition:
            self._condition.wait_for(lambda: self._roused or self._rung, max(0.0, until - time.monotonic()))
            rung, self._rung, self._roused = self._rung, set(), False
            return rung


def computed(asking: Mapping[int, FeatureStream]) -> dict[int, Computed | Exception]:
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
