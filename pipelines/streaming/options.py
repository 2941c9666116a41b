"""How a stream is played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pipelines.errors import UsageError
from pipelines.streaming.source import StreamSource

Late = Literal["drop", "wait"]
SampleFormat = Literal["u8", "s16le", "s16be", "s24le", "s32le", "s32be", "f32le", "f32be", "f64le"]
TOP_K = 3  # classes that a prediction names unless told otherwise
SAMPLE_FORMATS: tuple[str, ...] = get_args(SampleFormat)


@dataclass(frozen=True)
class PcmOptions:
    """Raw sound on standard input."""

    rate: int  # Hz
    channels: int = 1
    sample_format: str = "s16le"

    def __post_init__(self) -> None:
        if self.sample_format not in SAMPLE_FORMATS:
            known = ", ".join(SAMPLE_FORMATS)
            raise UsageError(f"unknown --sample-format '{self.sample_format}': choose from {known}")
        if self.channels < 1 or self.rate < 1:
            raise UsageError("--rate and --channels must be positive")


@dataclass(frozen=True)
class PlayOptions:
    """Pace, cuts and fault tolerance of a stream."""

    fast: bool = False  # files as fast as possible instead of in real time
    late: Late | None = None  # None: live sources drop what is late, files wait
    longest_lag: float = 1.0  # seconds behind at which `drop` skips to now
    start: float = 0.0  # media seconds
    duration: float | None = None  # media seconds
    loop: bool = False
    at_once: int = 16  # sources that play side by side, the rows of the batch; others wait for their turn
    pcm: PcmOptions | None = None  # what standard input holds; None: a container that ffmpeg knows
    hop: float | None = None  # seconds between the rows of feature files that do not say it
    reconnects: int = 10  # attempts in a row before a lost network source is given up
    snapshot: Path | None = None
    every: float = 10.0  # seconds between snapshots
    resume: Path | None = None

    def __post_init__(self) -> None:
        if self.late not in (None, *get_args(Late)):
            raise UsageError(f"unknown --late '{self.late}': choose from {', '.join(get_args(Late))}")
        for name, value in (("--start", self.start), ("--reconnects", self.reconnects)):
            if value < 0:
                raise UsageError(f"{name} must not be negative")
        for name, value in (("--every", self.every), ("--longest-lag", self.longest_lag), ("--at-once", self.at_once)):
            if not value > 0:
                raise UsageError(f"{name} must be positive, not {value}")
        for name, given in (("--duration", self.duration), ("--hop", self.hop)):
            if given is not None and not given > 0:
                raise UsageError(f"{name} must be positive, not {given}")

    def check_sources(self, sources: Sequence[StreamSource]) -> None:
        """Refuse options that mean nothing for these sources."""
        repeatable = [source for source in sources if source.repeatable]
        live = next((source for source in sources if source.device or source.kind == "pipe"), None)
        once = next((source for source in sources if not source.repeatable), None)
        if self.fast and self.late == "drop" and len(repeatable) == len(sources):
            raise UsageError("--late drop is about keeping up with a clock, and --fast has none: leave one of them out")
        if self.start and live is not None:
            raise UsageError(f"--start {self.start:g}: {live.name} begins when it is opened, and nothing lies ahead")
        if self.loop and once is not None:
            raise UsageError(f"--loop: {once.name} cannot be played again")
        if self.pcm is not None and not any(source.kind == "pipe" for source in sources):
            raise UsageError("--rate, --channels and --sample-format describe standard input: name the source -")


@dataclass(frozen=True)
class PredictionOptions:
    """How scores become lines."""

    top_k: int | None = None  # None: 3, or all where there are fewer
    threshold: float = 0.0  # a frame whose best class scores less has no label
    smooth: float = 0.0  # seconds over which probabilities are averaged

    def __post_init__(self) -> None:
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"--top-k must be at least 1, not {self.top_k}")
        if not 0.0 <= self.threshold <= 1.0:
            raise UsageError(f"--threshold must be from 0 to 1, not {self.threshold:g}")
        if self.smooth < 0:
            raise UsageError(f"--smooth must not be negative, not {self.smooth:g}")

    def shown(self, classes: int) -> int:
        """How many of a model's classes a prediction names."""
        if self.top_k is not None and self.top_k > classes:
            raise UsageError(f"--top-k {self.top_k}: the model has only {classes} classes")
        return self.top_k or min(TOP_K, classes)
