"""Rows that wait for the model, by a simulated clock: hours of a model that is too slow, in no time."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from pipelines.streaming.messages import Ended, Place, Row
from pipelines.streaming.playing.inbox import Inbox
from pipelines.streaming.playing.pacing import PlaybackClock

CAPACITY = 4  # rows
HOP = 0.25  # seconds
LONGEST_WAIT = 1.0  # seconds


def row(index: int, complete: float, source: int = 0, restart: bool = False, drop: bool = True) -> Row:
    time = HOP * (index + 1)
    return Row(
        source=source,
        index=index,
        place=Place(0, index + 1, index + 1),
        time=time,
        begin=time - HOP,
        end=time,
        values=np.zeros(1, np.float32),
        complete=complete,
        feature_seconds=0.0,
        queued=complete,
        restart=restart,
        longest_wait=LONGEST_WAIT if drop else None,
    )


class SlowModel:
    """Rows that come every hop, and a model that takes `step` seconds for each."""

    def __init__(self, step: float) -> None:
        self.step = step
        self.now = 0.0
        self.dropped = 0
        self.most_waiting = 0
        self.given: list[tuple[int, float]] = []  # index and latency of each row that the model saw
        self._inbox = Inbox(1, CAPACITY, threading.Event(), self._drop, now=lambda: self.now)
        self._free = 0.0  # when the model takes its next row
        self._produced = 0

    def play(self, rows: int) -> None:
        for index in range(rows):
            self._step_until(HOP * (index + 1))
            self.now = HOP * (index + 1)
            self._inbox.put(0, row(index, self.now))
            self._produced += 1
            self.most_waiting = max(self.most_waiting, self._waiting)
        self._step_until(float("inf"))

    @property
    def _waiting(self) -> int:
        return self._produced - self.dropped - len(self.given)

    def _step_until(self, end: float) -> None:
        while self._waiting and self._free <= end:
            begin = max(self.now, self._free)
            if begin > end:
                return
            self.now = begin
            [(_, taken)] = self._inbox.take()
            assert isinstance(taken, Row)
            self._free = begin + self.step
            self.given.append((taken.index, self._free - taken.complete))

    def _drop(self, source: int, rows: int) -> None:
        assert source == 0
        self.dropped += rows


@pytest.mark.parametrize("slower", [0.5, 1.1, 3.0, 25.0])
def test_a_slow_model_stays_near_the_present_for_hours(slower: float) -> None:
    rows = 4 * 3600 * 2
    model = SlowModel(slower * HOP)
    model.play(rows)
    indexes, latencies = zip(*model.given, strict=True)
    assert len(model.given) + model.dropped == rows
    assert list(indexes) == sorted(set(indexes))
    assert indexes[-1] == rows - 1  # the newest row is never the one that is dropped
    assert model.most_waiting <= LONGEST_WAIT / HOP + 1
    # What has waited for longer than it may gives way to the newest row, which came while the model was busy.
    assert max(latencies[:-1]) <= max(LONGEST_WAIT, HOP) + model.step + 1e-6
    assert latencies[-1] <= LONGEST_WAIT + 2 * model.step + 1e-6  # nothing newer came
    quarter = len(latencies) // 4
    assert max(latencies[-quarter:-1]) <= max(latencies[:quarter]) + 1e-6
    if slower < 1:
        assert model.dropped == 0
    else:
        assert len(model.given) == pytest.approx(rows / slower, rel=0.01, abs=2)


def test_a_burst_of_fresh_rows_is_not_late() -> None:
    """A network source may deliver many rows at once; the model takes them all if it can do so in time."""
    now = 0.0
    inbox = Inbox(1, CAPACITY, threading.Event(), lambda *_: pytest.fail("nothing is dropped"), now=lambda: now)
    for index in range(100):
        inbox.put(0, row(index, 0.0))
    taken = []
    for _ in range(100):
        now += LONGEST_WAIT / 101
        [(_, item)] = inbox.take()
        assert isinstance(item, Row)
        taken.append(item.index)
    assert taken == list(range(100))


def test_a_skip_keeps_the_mark_of_a_new_window_and_other_sources() -> None:
    now = 0.0
    dropped: list[tuple[int, int]] = []
    inbox = Inbox(1, 8, threading.Event(), lambda source, rows: dropped.append((source, rows)), now=lambda: now)
    inbox.put(0, row(9, 0.0, source=0))
    inbox.put(0, Ended(0))
    inbox.put(0, row(0, 0.0, source=1, restart=True))
    inbox.put(0, row(1, 0.1, source=1))
    inbox.put(0, row(2, 1.9, source=1))
    now = 2.0
    taken = [inbox.take()[0][1] for _ in range(3)]
    assert dropped == [(1, 2)]
    assert [item.source for item in taken] == [0, 0, 1]
    newest = taken[2]
    assert isinstance(newest, Row)
    assert (newest.index, newest.restart) == (2, True)


def test_who_may_not_drop_waits_for_room() -> None:
    inbox = Inbox(1, CAPACITY, threading.Event(), lambda *_: pytest.fail("nothing is dropped"))
    taken: list[int] = []

    def put_all() -> None:
        for index in range(50):
            inbox.put(0, row(index, 0.0, drop=False))
        inbox.finish(0)

    thread = threading.Thread(target=put_all)
    thread.start()
    while items := inbox.take():
        assert isinstance(items[0][1], Row)
        taken.append(items[0][1].index)
    thread.join()
    assert taken == list(range(50))


def test_the_clock_of_a_file_and_of_a_live_source() -> None:
    now = 100.0
    file = PlaybackClock(lambda: now)
    file.start(2.0)
    now = 103.0
    assert (file.now(), file.lag(4.5), file.wall(6.0)) == (5.0, 0.5, 104.0)
    file.pause(0.5)
    assert file.lag(4.5) == 0.0
    live = PlaybackClock(lambda: now)
    live.arrived(1.0, 11.2)  # the first piece came late
    live.arrived(2.0, 12.0)  # the live edge
    assert live.wall(3.0) == 13.0
    live.arrived(3.0, 14.0)  # late, and the clock knows
    assert live.wall(3.0) == pytest.approx(13.0, abs=0.01)
