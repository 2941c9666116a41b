"""What a feature stream is: the specification that goes into feature files and checkpoints.

A stream may join several extractors on one clock (`resnet50+vggish`): `parts` in order of concatenation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from pipelines.errors import ConfigurationError

Kind = Literal["audio", "video"]
# causal: a row at time t has seen only the past. centre: its window is centred on t. start: it begins at t.
Align = Literal["causal", "centre", "start"]
Option = str | int | float | bool
LEAST_HOP, MOST_HOP = 1e-6, 1e6  # seconds between rows of any clock at all
WIDEST = 1 << 24  # numbers in a row
RANDOM = "random"  # in place of the checksum of weights that nobody trained


@dataclass(frozen=True)
class ExtractorSpec:
    """One extractor as configured: enough to build it again and to get the same numbers."""

    name: str  # as on the command line: "vggish", "resnet50", "onnx:model.onnx"
    kind: Kind
    width: int  # numbers per row
    window: float  # seconds of media that one row has seen (one frame: 0.0)
    options: Mapping[str, Option] = field(default_factory=dict)  # e.g. {"output": "embedding"}
    weights: str | None = None  # sha256 of the weight file; "random" with --random-weights; None: needs none


@dataclass(frozen=True)
class FeatureSpec:
    """A stream of rows: row i stands for media time `row_time(i)`."""

    parts: tuple[ExtractorSpec, ...]
    hop: float  # seconds between rows
    align: Align = "causal"

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigurationError("a feature specification needs at least one extractor")
        if not isinstance(self.hop, float | int) or not LEAST_HOP <= self.hop <= MOST_HOP:
            raise ConfigurationError(
                f"the hop between feature rows must be from {LEAST_HOP:g} to {MOST_HOP:g} seconds, not {self.hop}"
            )
        if self.align not in get_args(Align):
            raise ConfigurationError(f"unknown alignment '{self.align}': choose from {', '.join(get_args(Align))}")

    @property
    def name(self) -> str:
        return "+".join(part.name for part in self.parts)

    @property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    @property
    def untrained(self) -> bool:
        """Whether any of its networks has random weights: then nothing made of the rows means anything."""
        return any(part.weights == RANDOM for part in self.parts)

    @property
    def rate(self) -> float:
        """Rows per second."""
        return 1.0 / self.hop

    def row_time(self, index: int) -> float:
        """Media time in seconds of row `index`: causal rows stand at the end of their hop, others at its start.

        This is the time that the window is aligned to.
        """
        return (index + 1) * self.hop if self.align == "causal" else index * self.hop

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "parts": [{**asdict(part), "options": dict(part.options)} for part in self.parts],
            "hop": self.hop,
            "align": self.align,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> FeatureSpec:
        """The inverse of `to_dict`; unknown or missing keys are errors."""
        try:
            parts = tuple(ExtractorSpec(**part) for part in value["parts"])
            spec = cls(parts=parts, **{key: item for key, item in value.items() if key != "parts"})
        except (TypeError, KeyError, AttributeError) as error:
            raise ConfigurationError(f"not a feature specification: {error}") from error
        for part in spec.parts:
            _check_part(part)
        return spec


def _check_part(part: ExtractorSpec) -> None:
    """Refuse values out of a file that no extractor has."""
    right = (
        isinstance(part.name, str),
        part.kind in get_args(Kind),
        isinstance(part.width, int) and 0 < part.width <= WIDEST,
        isinstance(part.window, float | int) and 0 <= part.window <= MOST_HOP,
        isinstance(part.options, Mapping) and all(isinstance(value, Option) for value in part.options.values()),
        part.weights is None or isinstance(part.weights, str),
    )
    if not all(right):
        field_name = ("name", "kind", "width", "window", "options", "weights")[right.index(False)]
        raise ConfigurationError(f"not a feature specification: an extractor has no {field_name} that can be")


def spec_difference(old: FeatureSpec, new: FeatureSpec) -> str | None:
    """The first thing in which features of `old` are not those of `new`: "have a hop of 0.25, not 0.2", or None."""
    for what, before, now in (
        ("features", old.name, new.name),
        ("a hop of", old.hop, new.hop),
        ("alignment", old.align, new.align),
    ):
        if before != now:
            return f"have {what} {before}, not {now}"
    for part, wanted in zip(old.parts, new.parts, strict=True):
        if part.options != wanted.options:
            ours, theirs = (_said(mine, other) for mine, other in ((part, wanted), (wanted, part)))
            return f"come from other options of {wanted.name} ({ours}, not {theirs})"
        if part.weights != wanted.weights:
            return f"come from other weights of {wanted.name}"
        if part != wanted:
            return f"come from another {wanted.name} (width {part.width}, not {wanted.width})"
    return None


def _said(part: ExtractorSpec, other: ExtractorSpec) -> str:
    """The options in which a part is not like another."""
    keys = [*part.options, *(key for key in other.options if key not in part.options)]
    different = [key for key in keys if part.options.get(key) != other.options.get(key)]
    return ", ".join(f"{key}={part.options[key]}" if key in part.options else f"no {key}" for key in different)
