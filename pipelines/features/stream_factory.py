"""From names on a command line (`resnet50+vggish`) or a specification to feature streams that can be fed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pipelines.devices import choose_device
from pipelines.errors import CheckpointError, InputError, MissingDependencyError, UsageError
from pipelines.features.audio import AUDIO_EXTRACTORS, audio_options, build_audio_extractor, needs_weights
from pipelines.features.extractor import AudioExtractor, VideoExtractor
from pipelines.features.joint import FeatureStream
from pipelines.features.media import probe
from pipelines.features.networks.files import (
    NETWORK_FILES,
    build_network_extractor,
    is_network_file,
    is_whole,
    network_options,
)
from pipelines.features.spec import Align, FeatureSpec, Option, spec_difference
from pipelines.features.video import VIDEO_EXTRACTORS, build_video_extractor, video_options
from pipelines.features.weights.store import WeightStore
from pipelines.wording import did_you_mean

EXTRACTORS = (*AUDIO_EXTRACTORS, *VIDEO_EXTRACTORS)
DEFAULT_HOP = 0.25  # seconds: 4 rows per second, the rate of most published features
OWN_HOPS = {"speech": 0.08}  # extractors with a grid of their own, and all that are joined to them
# Seconds between rows that make sense: no media has frames faster, and a row's samples are in memory at once.
SHORTEST_HOP, LONGEST_HOP = 0.001, 600.0
PCA_WEIGHTS = "vggish-audioset-pca"


@dataclass(frozen=True)
class StreamOptions:
    """Which extractors, how configured, on which clock. At most one of `hop`, `fps` and `every`."""

    features: str  # names joined by "+"
    hop: float | None = None  # seconds between rows
    fps: float | None = None  # rows per second
    every: int | None = None  # a row per this many video frames
    align: Align = "causal"
    options: Mapping[str, Option] = field(default_factory=dict)  # "KEY" or "NAME.KEY" to value
    weights: tuple[str, ...] = ()  # "FILE", a known name, or either after "NAME="
    random_weights: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        if not all(self.names):
            raise UsageError(f"'{self.features}' does not name features: join names with +, as in resnet50+vggish")
        if len(set(self.names)) < len(self.names):
            raise UsageError(f"'{self.features}' names an extractor twice: name it once")
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
    def names(self) -> list[str]:
        names: list[str] = []
        for name in map(str.strip, self.features.split("+")):
            if names and is_network_file(names[-1]) and not is_whole(names[-1]):
                names[-1] += f"+{name}"  # the plus was part of a file name
            else:
                names.append(name)
        return names

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**asdict(self), "options": dict(self.options), "weights": list(self.weights)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> StreamOptions:
        return cls(**{**value, "weights": tuple(value["weights"])})


class StreamFactory:
    """Makes a stream per recording. The networks are loaded once and shared by all of them."""

    def __init__(self, options: StreamOptions, store: WeightStore | None = None) -> None:
        self.options = options
        self._store = store or WeightStore()
        self._built: tuple[float, list[AudioExtractor | VideoExtractor]] | None = None  # for one hop
        # Of the video networks: audio networks are small and always run on the CPU.
        self._device = choose_device(options.device).type

    @classmethod
    def for_spec(
        cls,
        spec: FeatureSpec,
        weights: tuple[str, ...] = (),
        device: str = "auto",
        store: WeightStore | None = None,
    ) -> StreamFactory:
        """A factory whose streams are exactly those of a specification, out of a checkpoint or a feature file.

        The weights are found by their checksum; others can be given as files, and must have that checksum.
        """
        store = store or WeightStore()
        options = {f"{part.name}.{key}": value for part in spec.parts for key, value in part.options.items()}
        random = any(part.weights == "random" for part in spec.parts)
        if not random:
            weights += tuple(_known_weights(spec, store, weights))
        chosen = StreamOptions(
            spec.name,
            spec.hop,
            align=spec.align,
            options=options,
            weights=weights,
            random_weights=random,
            device=device,
        )
        factory = cls(chosen, store)
        if difference := spec_difference(factory.prototype().spec, spec):
            raise CheckpointError(f"the features that can be computed here {difference}, as the model needs them")
        return factory

    def tag_of(self, sha256: str) -> str | None:
        """The short name of what weights were trained on."""
        return self._store.tag(sha256)

    def prototype(self) -> FeatureStream:
        """A stream for a recording with nothing special about it."""
        return self._stream(self._fixed_hop or self._default_hop)

    def open(self, path: Path) -> FeatureStream:
        """A stream for the recording in `path`."""
        return self._stream(self._hop(path))

    def spec(self, path: Path) -> FeatureSpec:
        """The specification of the stream for the recording in `path`."""
        return self.open(path).spec

    @property
    def _fixed_hop(self) -> float | None:
        if self.options.every is not None:
            return None
        return self.options.hop or (1 / self.options.fps if self.options.fps else self._default_hop)

    @property
    def _default_hop(self) -> float:
        return min((OWN_HOPS[name] for name in self.options.names if name in OWN_HOPS), default=DEFAULT_HOP)

    def _hop(self, path: Path) -> float:
        if self._fixed_hop:
            return self._fixed_hop
        assert self.options.every is not None
        video = probe(path).video
        if video is None or not video.rate:
            raise InputError(f"{path}: has no video frames to count with --every: use --hop or --fps")
        hop = self.options.every / video.rate
        if hop > LONGEST_HOP:
            raise InputError(
                f"{path}: --every {self.options.every} is a row every {hop:g} s here, and the longest is "
                f"{LONGEST_HOP:g} s: choose a smaller number"
            )
        return hop

    def _stream(self, hop: float) -> FeatureStream:
        if self._built is None or self._built[0] != hop:
            self._built = None  # free the old networks before the new ones are loaded
            self._built = hop, [self._build(name, hop) for name in self.options.names]
        # Video extractors have no state of their own.
        fresh = [each.fresh() if hasattr(each, "fresh") else each for each in self._built[1]]
        return FeatureStream(fresh, hop, self.options.align)

    def _build(self, name: str, hop: float) -> AudioExtractor | VideoExtractor:
        options = self._options_of[name]
        if is_network_file(name):
            return build_network_extractor(name, hop, options, self.options.align)
        weights = None if self.options.random_weights else self._weights_of(name)
        if name in AUDIO_EXTRACTORS:
            random = self.options.random_weights and needs_weights(name)
            return build_audio_extractor(name, hop, options, weights, random, self.options.align)
        return build_video_extractor(name, weights, self.options.random_weights, options, self._device)

    def _weights_of(self, name: str) -> Path | None:
        if name in self._given_weights:
            return self._store.resolve(name, self._given_weights[name])
        default = self._store.default(name)
        # Weights that ship with cotrans are found by their extractor, which knows which of them it wants.
        return self._store.path(default.name) if default and not default.shipped else None

    @cached_property
    def _given_weights(self) -> dict[str, str]:
        """Extractor to file or name, from "NAME=FILE" and "FILE"."""
        names = self.options.names
        takers = [
            name for name in names if name in VIDEO_EXTRACTORS or (name in AUDIO_EXTRACTORS and needs_weights(name))
        ]
        given: dict[str, str] = {}
        for text in self.options.weights:
            name, equals, value = text.partition("=")
            if not equals or name not in names:  # a file whose own name may have a "=" in it
                if len(takers) != 1:
                    raise UsageError(f"--weights {text}: say for which of {', '.join(names)}, as in NAME={text}")
                name, value = takers[0], text
            if name not in takers:
                raise UsageError(f"--weights {text}: {name} takes no weight file: leave it out")
            if name in given:
                raise UsageError(f"--weights names the weights of {name} twice: give one file")
            given[name] = value
        return given

    @cached_property
    def _options_of(self) -> dict[str, dict[str, Option]]:
        """Options by extractor. A key without a name goes to every extractor that has it, and to one at least."""
        known = {name: known_options(name) for name in self.options.names}
        result: dict[str, dict[str, Option]] = {name: {} for name in known}
        for text, value in self.options.options.items():
            owner = next((name for name in known if text.startswith(f"{name}.")), None)
            key = text.removeprefix(f"{owner}.") if owner else text
            takers = [name for name in known if key in known[name] and owner in (None, name)]
            if not takers:
                options = ", ".join(sorted({key for keys in known.values() for key in keys})) or "none"
                raise UsageError(f"no extractor of {self.options.features} has an option '{text}'; they have {options}")
            for name in takers:
                result[name][key] = value
        vggish = result.get("vggish", {})
        if str(vggish.get("postprocess", "")).lower() in ("true", "1", "yes", "on"):
            vggish.setdefault("pca_parameters", str(self._store.path(PCA_WEIGHTS)))
        return result


def _known_weights(spec: FeatureSpec, store: WeightStore, given: tuple[str, ...]) -> Iterator[str]:
    """ "NAME=WEIGHTS" for the parts whose weights are not given, and which the registry knows by their checksum."""
    names = {part.name for part in spec.parts}
    owners = {text.partition("=")[0] for text in given}
    if not owners <= names:
        return  # a file without a name is for the only part that takes one
    for part in (part for part in spec.parts if part.name not in owners):
        entry = store.by_checksum(part.weights) if part.weights else None
        if entry is not None and not entry.shipped:
            yield f"{part.name}={entry.name}"
        elif entry is None and part.weights and not is_network_file(part.name):
            raise MissingDependencyError(
                f"the weights of {part.name} with checksum {part.weights[:8]} are not in `cotrans weights list`: "
                f"give the file with --weights {part.name}=FILE"
            )


def known_options(name: str) -> dict[str, Option]:
    """The options of an extractor and their defaults."""
    if is_network_file(name):
        return network_options(name)
    if name not in EXTRACTORS:
        hint = did_you_mean(name, EXTRACTORS)
        raise UsageError(
            f"there is no extractor '{name}'{hint} (extractors: {', '.join((*EXTRACTORS, *NETWORK_FILES))})"
        )
    return audio_options(name) if name in AUDIO_EXTRACTORS else video_options(name)


def parse_options(texts: list[str]) -> dict[str, Option]:
    """ "KEY=VALUE" and "NAME.KEY=VALUE" as they stand on a command line."""
    options: dict[str, Option] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--option {text}: write KEY=VALUE or NAME.KEY=VALUE")
        if key in options:
            raise UsageError(f"the option {key} is given twice: give it once")
        options[key] = value
    return options
