"""Which features are wanted: the one request that a command line, a recipe, a checkpoint and a manifest come down to.

A request names extractors and says how they are set up. Built here (`stream_factory`), it gives a `FeatureSpec`, which
also knows widths, windows and checksums; a request for the same features is made of a specification by `of_spec`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

from pipelines.errors import UsageError
from pipelines.features.networks.file_names import is_network_file, is_whole
from pipelines.features.spec import RANDOM, Align, FeatureSpec, Option
from pipelines.untrusted.toml import parse_value

DEFAULT_HOP = 0.25  # seconds: 4 rows per second, the rate of most published features
OWN_HOPS = {"speech": 0.08}  # extractors with a grid of their own, and all that are joined to them
# Seconds between rows that make sense: no media has frames faster, and a row's samples are in memory at once.
SHORTEST_HOP, LONGEST_HOP = 0.001, 600.0
ONLY = ""  # in place of an extractor's name: the only one that takes a weight file


@dataclass(frozen=True)
class FeatureRequest:
    """Which extractors, how configured, on which clock. At most one of `hop`, `fps` and `every`."""

    names: str  # joined by "+": "resnet50+vggish"
    hop: float | None = None  # seconds between rows; None: 0.25, as the paper takes for music
    fps: float | None = None  # rows per second
    every: int | None = None  # a row per this many video frames
    align: Align = "causal"
    options: Mapping[str, Option] = field(default_factory=dict)  # "KEY" or "NAME.KEY" to value
    weights: Mapping[str, str] = field(default_factory=dict)  # extractor, or ONLY, to file or known name
    random_weights: bool = False

    def __post_init__(self) -> None:
        if not all(self.extractors):
            raise UsageError(f"'{self.names}' does not name features: join names with +, as in resnet50+vggish")
        if len(set(self.extractors)) < len(self.extractors):
            raise UsageError(f"'{self.names}' names an extractor twice: name it once")
        if sum(value is not None for value in (self.hop, self.fps, self.every)) > 1:
            raise UsageError("--hop, --fps and --every say the same thing: give one of them")
        for name, value in (("--hop", self.hop), ("--fps", self.fps), ("--every", self.every)):
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"{name} must be positive, not {value:g}")
        hop = 1 / self.fps if self.fps else self.hop
        if hop is not None and not SHORTEST_HOP <= hop <= LONGEST_HOP:
            given = f"--fps {self.fps:g} is a row every {hop:g} s" if self.fps else f"--hop {hop:g} s"
            raise UsageError(f"{given}: choose one between {SHORTEST_HOP:g} and {LONGEST_HOP:g} s")
        if self.align not in get_args(Align):
            raise UsageError(f"unknown --align '{self.align}': choose from {', '.join(get_args(Align))}")
        if self.weights and self.random_weights:
            raise UsageError("--weights and --random-weights exclude each other: give one of them")

    @property
    def extractors(self) -> tuple[str, ...]:
        """The names one by one."""
        names: list[str] = []
        for name in map(str.strip, self.names.split("+")):
            if names and is_network_file(names[-1]) and not is_whole(names[-1]):
                names[-1] += f"+{name}"  # the plus was part of a file name
            else:
                names.append(name)
        return tuple(names)

    @property
    def fixed_hop(self) -> float | None:
        """Seconds between rows; None: each recording's own frames decide."""
        if self.every is not None:
            return None
        return self.hop or (1 / self.fps if self.fps else self.default_hop)

    @property
    def default_hop(self) -> float:
        """Seconds between rows where nothing is said."""
        return min((OWN_HOPS[name] for name in self.extractors if name in OWN_HOPS), default=DEFAULT_HOP)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON and TOML types; what is at its default is left out."""
        return {key: value for key, value in asdict(self).items() if value not in (None, False, {})}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> FeatureRequest:
        """The inverse of `to_dict`."""
        return cls(**value)

    @classmethod
    def of_spec(cls, spec: FeatureSpec, weights: Mapping[str, str] | None = None) -> FeatureRequest:
        """The request that gives the features of a specification, with weights where the extractor has none here."""
        return cls(
            spec.name,
            spec.hop,
            align=spec.align,
            options={f"{part.name}.{key}": value for part in spec.parts for key, value in part.options.items()},
            weights=weights or {},
            random_weights=any(part.weights == RANDOM for part in spec.parts),
        )

    def flags(self) -> list[str]:
        """The same request as words of `cotrans extract`."""
        words = ["--features", self.names]
        for key in ("hop", "fps", "every"):
            if (value := getattr(self, key)) is not None:
                words += [f"--{key}", repr(value)]
        words += ["--align", self.align] if self.align != "causal" else []
        words += [word for key, value in self.options.items() for word in ("--option", f"{key}={_text(value)}")]
        for name, file in self.weights.items():
            words += ["--weights", file if name == ONLY else f"{name}={file}"]
        return [*words, "--random-weights"] if self.random_weights else words


def parse_weights(texts: Sequence[str]) -> dict[str, str]:
    """Files or known names by extractor, from "NAME=FILE" and "FILE" on a command line."""
    weights: dict[str, str] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or Path(text).exists():  # a file whose own name has a "=" in it
            name, file = ONLY, text
        if not file or (equals and not name and file != text):
            raise UsageError(f"--weights takes [NAME=]FILE, such as vggish=vggish.pth, not '{text}'")
        if name in weights:
            raise UsageError(f"--weights names the weights of {name or 'the extractor'} twice: give one file")
        weights[name] = file
    return weights


def parse_options(texts: Sequence[str], flag: str = "--option") -> dict[str, Option]:
    """ "KEY=VALUE" and "NAME.KEY=VALUE" as they stand on a command line; values are TOML or text."""
    options: dict[str, Option] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} {text}: write KEY=VALUE or NAME.KEY=VALUE")
        if key in options:
            raise UsageError(f"the option {key} is given twice: give it once")
        options[key] = parse_value(value)
    return options


def _text(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
