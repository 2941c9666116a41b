"""What the reader of an audio track and that of a video track share: a place in media time."""

from __future__ import annotations

from pipelines.features.media.timeline import Timeline


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
