"""The clock that media plays by."""

from __future__ import annotations

import time
from collections.abc import Callable

DRIFT = 1e-3  # how much slower than ours a live source's clock may run


class PlaybackClock:
    """Maps media seconds to the machine's clock.

    A file is started once (`start`) and then plays in real time. A live source tells its own time: `arrived` keeps
    the earliest arrival that was ever seen for a media time, the live edge, so that later pieces show their delay.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """now: the machine's clock, which only ever goes forward."""
        self._now = now
        self._zero: float | None = None  # monotonic time of media time 0
        self._heard = 0.0  # monotonic time of the last arrival

    @property
    def started(self) -> bool:
        return self._zero is not None

    def start(self, media: float, at: float | None = None) -> None:
        """Media time `media` is played now, or at the monotonic time `at`."""
        self._zero = (self._now() if at is None else at) - media

    def arrived(self, media: float, at: float) -> None:
        """A live source has delivered everything up to `media` at the monotonic time `at`."""
        zero = at - media
        if self._zero is not None:
            # A device whose clock is a little slow must not look later and later.
            zero = min(zero, self._zero + DRIFT * max(0.0, at - self._heard))
        self._zero, self._heard = zero, at

    def wall(self, media: float) -> float:
        """The monotonic time at which `media` is played."""
        assert self._zero is not None
        return self._zero + media

    def now(self) -> float:
        """The media time that is played now."""
        return self._now() - self.wall(0.0)

    def lag(self, media: float) -> float:
        """Seconds by which something that is at `media` only now is late."""
        return self._now() - self.wall(media)

    def pause(self, seconds: float) -> None:
        """Playing stood still for that long."""
        assert self._zero is not None
        self._zero += seconds
