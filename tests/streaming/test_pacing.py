"""The clock that media plays by: a file's, and that of a source which has its own."""

from __future__ import annotations

import pytest

from pipelines.streaming.playing.pacing import DRIFT, PlaybackClock


def test_a_file_plays_in_real_time_and_stands_still_when_it_is_paused() -> None:
    now = [100.0]
    clock = PlaybackClock(lambda: now[0])
    assert not clock.started
    clock.start(2.0)
    now[0] += 3.0
    assert clock.started and clock.now() == pytest.approx(5.0)
    assert clock.lag(4.5) == pytest.approx(0.5)
    clock.pause(0.5)
    assert clock.lag(4.5) == pytest.approx(0.0) and clock.wall(6.0) == pytest.approx(104.5)


def test_pieces_of_a_live_source_are_late_by_the_earliest_that_came() -> None:
    clock = PlaybackClock()
    for media, at in ((0.0, 10.3), (0.1, 10.2), (0.2, 10.9)):  # late at first, then on time, then late again
        clock.arrived(media, at)
    assert clock.wall(0.2) == pytest.approx(10.3, abs=1e-3)


@pytest.mark.parametrize("slow", [0.0, 0.5 * DRIFT, -0.5 * DRIFT])
def test_a_device_whose_clock_is_a_little_off_is_not_later_and_later(slow: float) -> None:
    clock = PlaybackClock()
    for step in range(36_000):  # an hour
        at = step * 0.1 * (1 + slow)
        clock.arrived(step * 0.1, at)
        assert at - clock.wall(step * 0.1) == pytest.approx(0.0, abs=1e-6)
