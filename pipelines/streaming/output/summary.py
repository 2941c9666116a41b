"""How a stream went: frames, pace, latency by stage, what was dropped and what failed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from pipelines.streaming.output.histogram import TimeHistogram
from pipelines.wording import counted

# decode: a piece of media. features: a row. wait: in line for the model. encoder: a step for all rows of the batch, or
# a row's part of a chunk. output: writing a prediction. latency: from the end of a row's media to its prediction.
STAGES = ("decode", "features", "wait", "encoder", "output", "latency")

UNSURE = "no frame got a label: none of the classes was sure enough; --threshold 0 names the nearest"
NARROWED = "no frame got a label: none of the classes that --only and --hide leave was the best and sure enough"


@dataclass
class SourceStatistics:
    """Counts of one source."""

    name: str
    frames: int = 0
    named: int = 0  # frames that have a label
    late: int = 0  # rows told beyond those of frames: the last answers of a model with a lag
    seconds: float = 0.0  # of media that the frames stand for
    length: float | None = None  # media seconds that it will have played, where it has an end that is known
    dropped: int = 0  # rows left out because they were late
    broken: int = 0  # rows left out because they held NaN or infinity
    reconnects: int = 0
    error: str | None = None
    latency: TimeHistogram = field(default_factory=TimeHistogram)

    def to_dict(self) -> dict[str, Any]:
        return {
            "source": self.name,
            "frames": self.frames,
            "named": self.named,
            "seconds": round(self.seconds, 6),
            "dropped": self.dropped,
            "broken": self.broken,
            "reconnects": self.reconnects,
            "latency": self.latency.to_dict(),
            "error": self.error,
        }


class Statistics:
    """Counts and times of a running stream, from all its threads."""

    def __init__(self, names: Sequence[str]) -> None:
        self.sources = [SourceStatistics(name) for name in names]
        self.stages = {name: TimeHistogram() for name in STAGES}
        self.steps = 0
        self._begin: float | None = None  # monotonic time of the first row
        self._end: float | None = None
        self._lock = RLock()
        self._whole: Statistics | None = None  # what this is a part of

    def part(self, numbers: Sequence[int]) -> Statistics:
        """The statistics of some of the sources, for a stream that knows them as 0, 1, …; they count here too."""
        part = Statistics([])
        part.sources = [self.sources[number] for number in numbers]
        part.stages, part._lock, part._whole = self.stages, self._lock, self
        return part

    def begin(self) -> None:
        """The first media or row is there: what came before was loading."""
        with self._lock:
            if self._begin is None:
                self._begin = time.monotonic()
            if self._whole is not None:
                self._whole.begin()

    def end(self) -> None:
        """Nothing more comes. A whole has its own end, after that of its parts."""
        with self._lock:
            if self._end is None:
                self._end = time.monotonic()

    def stepped(self) -> None:
        """The model took a step, or many at once: one pass for one row or more."""
        with self._lock:
            self.steps += 1
            if self._whole is not None:
                self._whole.stepped()

    def took(self, stage: str, seconds: float, times: int = 1) -> None:
        with self._lock:
            self.stages[stage].add(seconds, times)

    def took_each(self, stage: str, seconds: Iterable[float]) -> None:
        """`took` for each of some times, of which many may be equal."""
        with self._lock:
            self.stages[stage].add_all(seconds)

    def predicted(
        self, source: int, seconds: Sequence[float], latencies: Sequence[float], named: int, late: int = 0
    ) -> None:
        """Predictions: the media that each is for, and how long after it.

        named: how many have a label. late: how many more there are, of media that was counted before.
        """
        with self._lock:
            counts = self.sources[source]
            counts.frames += len(latencies)
            counts.named += named
            counts.late += late
            counts.seconds = sum(seconds, counts.seconds)
            counts.latency.add_all(latencies)
            self.stages["latency"].add_all(latencies)

    def dropped(self, source: int, rows: int) -> None:
        with self._lock:
            self.sources[source].dropped += rows

    def broken(self, source: int) -> int:
        """Count a row that cannot be used; how many there are now."""
        with self._lock:
            self.sources[source].broken += 1
            return self.sources[source].broken

    def opened(self, source: int, length: float | None) -> None:
        """A source is open. length: media seconds that it will play; None: nobody knows, or it never ends."""
        with self._lock:
            self.sources[source].length = length

    def reconnected(self, source: int) -> None:
        with self._lock:
            self.sources[source].reconnects += 1

    def failed(self, source: int, error: str) -> None:
        with self._lock:
            self.sources[source].error = error

    @property
    def wall_seconds(self) -> float:
        if self._begin is None:
            return 0.0
        return (self._end or time.monotonic()) - self._begin

    def summary(self, models: int = 1) -> Summary:
        """Everything so far. models: each source stands here once for each of so many, one after the other."""
        with self._lock:
            frames = sum(source.frames for source in self.sources)
            played = [source.seconds for source in self.sources]
            seconds = sum(max(played[first : first + models]) for first in range(0, len(played), models))
            wall = self.wall_seconds
            return Summary(
                frames=frames,
                named=sum(source.named for source in self.sources),
                seconds=seconds,
                wall_seconds=wall,
                real_time_factor=seconds / wall if wall > 0 else 0.0,
                steps=self.steps,
                dropped=sum(source.dropped for source in self.sources),
                stages={name: histogram.to_dict() for name, histogram in self.stages.items()},
                sources=tuple(source.to_dict() for source in self.sources),
                errors=tuple(source.error for source in self.sources if source.error),
                late=sum(source.late for source in self.sources),
            )


@dataclass(frozen=True)
class Summary:
    """What is printed at the end."""

    frames: int
    named: int  # frames that have a label
    seconds: float  # of media, over all sources
    wall_seconds: float
    real_time_factor: float  # media seconds per second of wall time: 1 is real time for one source
    steps: int  # passes of the model, each for one row or more
    dropped: int
    stages: dict[str, dict[str, float]]  # milliseconds
    sources: tuple[dict[str, Any], ...]
    errors: tuple[str, ...]
    late: int = 0  # rows told beyond those of frames
    interrupted: bool = False
    paced: bool = True  # False: rows were taken as fast as possible, and waiting in line says nothing of latency
    narrowed: bool = False  # the user wants to hear of some classes only
    untold: str = ""  # why there is not one segment, where segments were asked for
    model: str = ""  # and what it can hear or see

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "frames": self.frames,
            "named": self.named,
            "seconds": round(self.seconds, 6),
            "wall_seconds": round(self.wall_seconds, 3),
            "real_time_factor": round(self.real_time_factor, 3),
            "steps": self.steps,
            "dropped": self.dropped,
            "interrupted": self.interrupted,
            "latency": self.stages["latency"] if self.paced else None,
            "stages": {name: value for name, value in self.stages.items() if name != "latency"},
            "sources": list(self.sources),
            "errors": list(self.errors),
        }

    def lines(self) -> list[str]:
        """For people, who have heard of the errors by now."""
        latency = self.stages["latency"]
        lag = f" (and {counted(self.late, 'row')} of the lag)" if self.late else ""
        text = [
            *([f"model {self.model}"] if self.model else []),
            f"{counted(self.frames, 'frame')}{lag}, {self.seconds:,.1f} s of media in "
            f"{self.wall_seconds:,.1f} s ({self.real_time_factor:.2f} × real time), {self.dropped:,} dropped",
        ]
        if self.frames and not self.named:
            text.append(NARROWED if self.narrowed else UNSURE)
        elif self.frames and self.untold:
            text.append(self.untold)
        if self.paced:
            p50, p95, longest = (latency[name] for name in ("p50_ms", "p95_ms", "max_ms"))
            text.append(f"latency p50 {p50:.1f} ms, p95 {p95:.1f} ms, max {longest:.1f} ms")
        stages = {name: self.stages[name] for name in STAGES if name != "latency"}
        parts = (f"{name} {values['p50_ms']:.2f}/{values['p95_ms']:.2f}" for name, values in stages.items())
        text.append(f"p50/p95 ms: {', '.join(parts)}")
        return text
