"""What is read ahead of its time, and how much of it."""

from __future__ import annotations

import math
import time
from threading import Thread

import pytest

from pipelines.streaming.playing.ahead import Ahead


def test_messages_come_in_their_order_until_there_are_none() -> None:
    ahead = Ahead[str](3, math.inf)
    assert ahead.get() is None
    assert all(ahead.put(message, 1.0, 0.0) for message in "abc")
    assert not ahead.put("d", 0.0, 0.0)
    assert [ahead.get() for _ in range(4)] == ["a", "b", "c", None]


@pytest.mark.parametrize(("seconds", "taken"), [(0.02, 64), (0.5, 4), (1.5, 2), (30.0, 1)])
def test_it_is_full_by_seconds_too(seconds: float, taken: int) -> None:
    ahead = Ahead[int](64, 2.0)
    for _ in range(2):  # what was taken out counts no longer
        assert [ahead.put(number, seconds, 0.0) for number in range(70)].count(True) == taken
        assert [ahead.get() for _ in range(taken)] == list(range(taken))


def test_who_waits_goes_on_when_there_is_room() -> None:
    ahead = Ahead[str](1, math.inf)
    assert ahead.put("first", 0.0, 0.0)
    taken: list[bool] = []
    waiting = Thread(target=lambda: taken.append(ahead.put("second", 0.0, 60.0)))
    waiting.start()
    time.sleep(0.02)
    assert not taken and ahead.get() == "first"
    waiting.join(30.0)
    assert taken == [True] and ahead.get() == "second"
