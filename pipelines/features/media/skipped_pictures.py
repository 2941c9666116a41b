"""Pictures that nobody wants are not decoded: the video packets of a source up to the last key picture before a time.

The sound before that time is decoded all the same. So it is placed by counting its samples from the start, as in a pass
over everything, and no container has to be able to seek exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pipelines.features.media.timeline import Timeline, timestamp


class SkippedPictures:
    """Video packets of stream `index` before media time `until`, of which only the last group of pictures is kept."""

    def __init__(self, index: int, until: float, origin: float, length: float | None) -> None:
        self.under_way = True
        self._index, self._until, self._origin = index, until, origin
        self._timeline = Timeline(origin, length)  # sees times that jump in what is skipped
        self._group: list[Any] = []  # packets since the last key picture
        self._key: float | None = None  # timestamp of the picture that decoding begins with
        self._apart = False  # one track was so far behind the other that it would have been filled up

    @property
    def flawless(self) -> bool:
        """Whether a pass over everything would have seen nothing strange in what is skipped."""
        return not (self._timeline.jumps or self._apart)

    def without(self, packets: Iterable[Any]) -> Iterator[Any]:
        """The packets to decode."""
        for packet in packets:
            if not self.under_way or packet.stream.index != self._index:
                yield packet
                continue
            if packet.is_keyframe:
                self._group = []
            self._group.append(packet)
            time = timestamp(packet)
            if time is not None:
                duration = float(packet.duration * packet.time_base) if packet.duration else 0.0
                self._timeline.place(time, duration)
            if not packet.size or (time is not None and time - self._origin >= self._until):
                yield from self._begin()
        yield from self._begin()

    def is_whole(self, index: int, frame: Any) -> bool:
        """Whether a frame has all that it is predicted from: those shown before the key picture have not."""
        time = timestamp(frame)
        return index != self._index or self._key is None or time is None or time >= self._key

    def compare(self, sound: float, skew: float) -> None:
        """`sound`: media time that the other track has reached."""
        self._apart = self._apart or abs(sound - self._timeline.reached) > skew > 0

    def _begin(self) -> Iterator[Any]:
        self.under_way = False
        group, self._group = self._group, []
        if group:
            self._key = timestamp(group[0])
        yield from group
