"""Where decoded frames stand in media time, for sources whose timestamps jump, repeat or are missing."""

from __future__ import annotations

from typing import Any

LONGEST_GAP = 60.0  # seconds of nothing that are believed where the source's length is unknown
LENGTH_MARGIN = 10.0  # seconds by which timestamps may exceed the length that the header states
LARGEST_STEP_BACK = 1.0  # seconds; more is a restarted clock, less is an overlap


def timestamp(frame: Any) -> float | None:
    """Seconds of an `av` frame; damaged streams leave out either half of it."""
    return None if frame.pts is None or frame.time_base is None else float(frame.pts * frame.time_base)


class Timeline:
    """Turns the timestamps of one track into media seconds that start at 0 and never jump absurdly."""

    def __init__(self, origin: float, length: float | None) -> None:
        self._shift = -origin
        self._length = length
        self.reached = 0.0  # where the newest frame ends and the next is expected
        self.jumps = 0  # timestamps that could not be true and were replaced

    def plausible(self, duration: float) -> bool:
        """Whether one frame may last that long: damaged headers speak of years."""
        return 0 < duration <= max(LONGEST_GAP, self._length or 0.0)

    def place(self, stamp: float | None, duration: float) -> float:
        """Media time of a frame with timestamp `stamp` (None: unknown) that lasts `duration` seconds."""
        if stamp is None:
            time = self.reached
        else:
            time = stamp + self._shift
            latest = self.reached + LONGEST_GAP
            if self._length is not None:
                latest = max(self.reached, self._length) + LENGTH_MARGIN
            if time > latest or time < self.reached - LARGEST_STEP_BACK:
                if self.reached == 0.0 and time < 0:  # frames before the start are the decoder's run-up
                    return time
                self.jumps += 1
                self._shift += self.reached - time
                time = self.reached
        self.reached = max(self.reached, time + duration)
        return time


class TrackReader:
    """One track of a source, placed in media time from `start` on."""

    def __init__(self, timeline: Timeline, start: float) -> None:
        self.late = 0  # frames that came after something else had been given for their time
        self._filled = False
        self._timeline = timeline
        self._start = start

    @property
    def jumps(self) -> int:
        """Timestamps that could not be true."""
        return self._timeline.jumps

    @property
    def source_end(self) -> float:
        """Media time that the source's own frames reach, without anything that was filled in."""
        return self._timeline.reached
