"""How a stream is played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pipelines.errors import UsageError
from pipelines.features.media.resampler import HIGHEST_RATE, LOWEST_RATE
from pipelines.features.request import LONGEST_HOP, SHORTEST_HOP
from pipelines.streaming.predicting.label_rule import BACKGROUND, LabelRule
from pipelines.streaming.sources.source import StreamSource

Late = Literal["drop", "wait"]
SampleFormat = Literal["u8", "s16le", "s16be", "s24le", "s32le", "s32be", "f32le", "f32be", "f64le"]
TOP_K = 3  # classes that a prediction names unless told otherwise
SAMPLE_FORMATS: tuple[str, ...] = get_args(SampleFormat)
LAG = 1.0  # seconds behind, and attempts to connect again, unless told otherwise
RECONNECTS = 10
LONGEST = 1e9  # seconds: thirty years, beyond which times are no longer exact
MOST_CHANNELS = 1024  # of raw sound


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
        if not LOWEST_RATE <= self.rate <= HIGHEST_RATE:
            raise UsageError(f"--rate must be from {LOWEST_RATE} to {HIGHEST_RATE} samples per second, not {self.rate}")
        if not 1 <= self.channels <= MOST_CHANNELS:
            raise UsageError(f"--channels must be from 1 to {MOST_CHANNELS}, not {self.channels}")


def pcm_options(rate: int | None, channels: int | None, sample_format: str | None) -> PcmOptions | None:
    """What flags say of raw sound; None: nothing."""
    if rate is None:
        if channels is not None or sample_format is not None:
            raise UsageError("--channels and --sample-format describe raw sound: give its --rate too")
        return None
    return PcmOptions(rate, 1 if channels is None else channels, "s16le" if sample_format is None else sample_format)


@dataclass(frozen=True)
class PlayOptions:
    """Pace, cuts and fault tolerance of a stream."""

    fast: bool = False  # files as fast as possible instead of in real time
    late: Late | None = None  # None: live sources drop what is late, files wait
    longest_lag: float | None = None  # seconds behind at which `drop` skips to now; None: 1
    start: float = 0.0  # media seconds
    duration: float | None = None  # media seconds
    loop: bool = False
    at_once: int = 16  # sources that play side by side, the rows of the batch; others wait for their turn
    pcm: PcmOptions | None = None  # what standard input holds; None: a container that ffmpeg knows
    hop: float | None = None  # seconds between the rows of feature files that do not say it
    reconnects: int | None = None  # attempts in a row before a lost network source is given up; None: 10
    snapshot: Path | None = None
    every: float | None = None  # seconds between snapshots; None: 10
    resume: Path | None = None

    def __post_init__(self) -> None:
        if self.late not in (None, *get_args(Late)):
            raise UsageError(f"unknown --late '{self.late}': choose from {', '.join(get_args(Late))}")
        if self.reconnects is not None and self.reconnects < 0:
            raise UsageError(f"--reconnects must not be negative, not {self.reconnects}")
        if self.at_once < 1:
            raise UsageError(f"--at-once must be at least 1, not {self.at_once}")
        check_seconds("--start", self.start, zero=True)
        check_seconds("--every", self.every)
        if self.every is not None and self.snapshot is None:
            raise UsageError("--every is how often the state is saved: add --snapshot FILE")
        check_seconds("--longest-lag", self.longest_lag)
        check_seconds("--duration", self.duration)
        if self.hop is not None and not SHORTEST_HOP <= self.hop <= LONGEST_HOP:
            raise UsageError(f"--hop must be from {SHORTEST_HOP:g} to {LONGEST_HOP:g} seconds, not {self.hop:g}")

    @property
    def most_lag(self) -> float:
        """Seconds behind that are too much."""
        return LAG if self.longest_lag is None else self.longest_lag

    @property
    def attempts(self) -> int:
        """In a row, to get a lost network source back."""
        return RECONNECTS if self.reconnects is None else self.reconnects

    def check_sources(self, sources: Sequence[StreamSource]) -> None:
        """Refuse options that mean nothing for these sources."""
        repeatable = [source for source in sources if source.repeatable]
        live = next((source for source in sources if source.device or source.kind == "pipe"), None)
        once = next((source for source in sources if not source.repeatable), None)
        if self.fast and self.late == "drop" and len(repeatable) == len(sources):
            raise UsageError("--late drop is about keeping up with a clock, and --fast has none: leave one of them out")
        if self.fast and self.longest_lag is not None and len(repeatable) == len(sources):
            raise UsageError("--longest-lag is about keeping up with a clock, and --fast has none: leave one out")
        if self.reconnects is not None and not any(source.kind == "url" for source in sources):
            raise UsageError("--reconnects is about addresses (rtsp://, http://), and none is given: leave it out")
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
    threshold: float | None = None  # a frame whose best class scores less has no label; None: as the model says
    smooth: float | None = None  # seconds over which probabilities are averaged; None: as the model says
    thresholds: Mapping[str, float] = field(default_factory=dict)  # of single classes
    only: tuple[str, ...] = ()  # classes to tell of; empty: all
    hide: tuple[str, ...] = ()  # classes not to tell of
    least: float | None = None  # seconds: shorter stretches are left out; None: as the model says
    order: bool = True  # classes that follow each other do so; False: every row by itself

    def __post_init__(self) -> None:
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"--top-k must be at least 1, not {self.top_k}")
        for value in (self.threshold, *self.thresholds.values()):
            if value is not None and not 0.0 <= value <= 1.0:
                raise UsageError(f"--threshold must be from 0 to 1, not {value:g}")
        if both := set(self.only) & set(self.hide):
            raise UsageError(f"--only and --hide both name '{min(both)}': leave one of them out")
        check_seconds("--smooth", self.smooth, zero=True)
        check_seconds("--least", self.least, zero=True)

    def rule(self, class_names: Sequence[str], merged: bool = False) -> LabelRule:
        """Which labels frames get, of a model with these classes.

        merged: in stretches, where background is left out unless it was asked for.
        """
        hidden = set(self.hide)
        if merged and BACKGROUND in class_names and BACKGROUND not in self.only:
            hidden.add(BACKGROUND)
        rule = LabelRule(self.threshold, self.thresholds, frozenset(self.only), frozenset(hidden))
        rule.check_classes(class_names)
        return rule

    def least_of(self, own: float) -> float:
        """Seconds, below which stretches of a model are left out; own: as the model says."""
        return own if self.least is None else self.least

    def shown(self, classes: int) -> int:
        """How many of a model's classes a prediction names."""
        if self.top_k is not None and self.top_k > classes:
            raise UsageError(f"--top-k {self.top_k}: the model has only {classes} classes")
        return self.top_k or min(TOP_K, classes)


def check_seconds(option: str, value: float | None, zero: bool = False) -> None:
    """Refuse a number that is no length of time; NaN is within no bounds."""
    if value is None or (0 < value <= LONGEST) or (zero and value == 0):
        return
    least = "0 or more" if zero else "more than 0"
    bound = f"at most {LONGEST:,.0f}" if value > LONGEST else least
    raise UsageError(f"{option} must be {bound} seconds, not {value:g}")
