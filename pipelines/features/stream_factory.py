"""From names on a command line (`resnet50+vggish`) or a specification to feature streams that can be fed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pipelines.devices import check_device, choose_device
from pipelines.errors import CheckpointError, InputError, MissingDependencyError, UsageError
from pipelines.features.audio import AUDIO_EXTRACTORS, audio_options, build_audio_extractor, needs_weights
from pipelines.features.extractor import AudioExtractor, VideoExtractor
from pipelines.features.joint import FeatureStream
from pipelines.features.media import probe
from pipelines.features.networks.file_names import is_network_file
from pipelines.features.networks.files import (
    NETWORK_FILES,
    build_network_extractor,
    network_options,
)
from pipelines.features.request import LONGEST_HOP, ONLY, FeatureRequest
from pipelines.features.spec import FeatureSpec, Option, spec_difference
from pipelines.features.video import VIDEO_EXTRACTORS, video_options
from pipelines.features.weights.store import WeightStore
from pipelines.wording import did_you_mean

EXTRACTORS = (*AUDIO_EXTRACTORS, *VIDEO_EXTRACTORS)
PCA_WEIGHTS = "vggish-audioset-pca"


class StreamFactory:
    """Makes a stream per recording. The networks are loaded once and shared by all of them."""

    def __init__(self, request: FeatureRequest, device: str = "auto", store: WeightStore | None = None) -> None:
        self.request = request
        self.device = device
        self._store = store or WeightStore()
        self._built: tuple[float, list[AudioExtractor | VideoExtractor]] | None = None  # for one hop
        check_device(device)

    @classmethod
    def for_spec(
        cls,
        spec: FeatureSpec,
        weights: Mapping[str, str] | None = None,
        device: str = "auto",
        store: WeightStore | None = None,
    ) -> StreamFactory:
        """A factory whose streams are exactly those of a specification, out of a checkpoint or a feature file.

        The weights are found by their checksum; others can be given as files, and must have that checksum.
        """
        store = store or WeightStore()
        request = FeatureRequest.of_spec(spec, weights)
        if not request.random_weights:
            request = replace(request, weights={**request.weights, **_known_weights(spec, store, request.weights)})
        factory = cls(request, device, store)
        if difference := spec_difference(factory.prototype().spec, spec):
            raise CheckpointError(f"the features that can be computed here {difference}, as the model needs them")
        return factory

    def tag_of(self, sha256: str) -> str | None:
        """The short name of what weights were trained on."""
        return self._store.tag(sha256)

    def prototype(self) -> FeatureStream:
        """A stream for a recording with nothing special about it."""
        return self._stream(self.request.fixed_hop or self.request.default_hop)

    def open(self, path: Path, row: int = 0) -> FeatureStream:
        """A stream for the recording in `path`; `row`: the first that is wanted of it."""
        return self._stream(self._hop(path), row)

    def spec(self, path: Path) -> FeatureSpec:
        """The specification of the stream for the recording in `path`."""
        return self.open(path).spec

    def _hop(self, path: Path) -> float:
        if self.request.fixed_hop:
            return self.request.fixed_hop
        assert self.request.every is not None
        video = probe(path).video
        if video is None or not video.rate:
            raise InputError(f"{path}: has no video frames to count with --every: use --hop or --fps")
        hop = self.request.every / video.rate
        if hop > LONGEST_HOP:
            raise InputError(
                f"{path}: --every {self.request.every} is a row every {hop:g} s here, and the longest is "
                f"{LONGEST_HOP:g} s: choose a smaller number"
            )
        return hop

    def _stream(self, hop: float, row: int = 0) -> FeatureStream:
        if self._built is None or self._built[0] != hop:
            self._built = None  # free the old networks before the new ones are loaded
            self._built = hop, [self._build(name, hop) for name in self.request.extractors]
        # Video extractors have no state of their own.
        fresh = [each.fresh() if hasattr(each, "fresh") else each for each in self._built[1]]
        return FeatureStream(fresh, hop, self.request.align, row=row)

    def _build(self, name: str, hop: float) -> AudioExtractor | VideoExtractor:
        options = self._options_of[name]
        if is_network_file(name):
            return build_network_extractor(name, hop, options, self.request.align)
        weights = None if self.request.random_weights else self._weights_of(name)
        if name in AUDIO_EXTRACTORS:
            random = self.request.random_weights and needs_weights(name)
            return build_audio_extractor(name, hop, options, weights, random, self.request.align)
        from pipelines.features.video import build_video_extractor

        # Audio networks are small and always run on the CPU.
        device = choose_device(self.device).type
        return build_video_extractor(name, weights, self.request.random_weights, options, device)

    def _weights_of(self, name: str) -> Path | None:
        if name in self._given_weights:
            return self._store.resolve(name, self._given_weights[name])
        default = self._store.default(name)
        # Weights that ship with cotrans are found by their extractor, which knows which of them it wants.
        return self._store.path(default.name) if default and not default.shipped else None

    @cached_property
    def _given_weights(self) -> dict[str, str]:
        """Extractor to file or name; the only one that takes a file need not be named."""
        names = self.request.extractors
        takers = [
            name for name in names if name in VIDEO_EXTRACTORS or (name in AUDIO_EXTRACTORS and needs_weights(name))
        ]
        given: dict[str, str] = {}
        for name, file in self.request.weights.items():
            if name == ONLY and not takers:
                raise UsageError(f"--weights {file}: {self.request.names} takes no weight file: leave it out")
            if name == ONLY and len(takers) > 1:
                raise UsageError(f"--weights {file}: say for which of {', '.join(takers)}, as in {takers[0]}={file}")
            owner = takers[0] if name == ONLY else name
            if owner not in names:
                raise UsageError(f"--weights {owner}={file}: {owner} is none of {', '.join(names)}")
            if owner not in takers:
                raise UsageError(f"--weights {file}: {owner} takes no weight file: leave it out")
            if owner in given:
                raise UsageError(f"--weights names the weights of {owner} twice: give one file")
            given[owner] = file
        return given

    @cached_property
    def _options_of(self) -> dict[str, dict[str, Option]]:
        """Options by extractor. A key without a name goes to every extractor that has it, and to one at least."""
        known = {name: known_options(name) for name in self.request.extractors}
        result: dict[str, dict[str, Option]] = {name: {} for name in known}
        for text, value in self.request.options.items():
            owner = next((name for name in known if text.startswith(f"{name}.")), None)
            key = text.removeprefix(f"{owner}.") if owner else text
            takers = [name for name in known if key in known[name] and owner in (None, name)]
            if not takers:
                options = ", ".join(sorted({key for keys in known.values() for key in keys})) or "none"
                raise UsageError(f"no extractor of {self.request.names} has an option '{text}'; they have {options}")
            for name in takers:
                result[name][key] = value
        vggish = result.get("vggish", {})
        if str(vggish.get("postprocess", "")).lower() in ("true", "1", "yes", "on"):
            vggish.setdefault("pca_parameters", str(self._store.path(PCA_WEIGHTS)))
        return result


def _known_weights(spec: FeatureSpec, store: WeightStore, given: Mapping[str, str]) -> dict[str, str]:
    """Weights by extractor, of those that are not given and that the registry knows by their checksum."""
    known: dict[str, str] = {}
    if ONLY in given:
        return known  # it is for the only part that takes one
    for part in (part for part in spec.parts if part.name not in given):
        entry = store.by_checksum(part.weights) if part.weights else None
        if entry is not None and not entry.shipped:
            known[part.name] = entry.name
        elif entry is None and part.weights and not is_network_file(part.name):
            raise MissingDependencyError(
                f"the weights of {part.name} with checksum {part.weights[:8]} are not in `cotrans weights list`: "
                f"give the file with --weights {part.name}=FILE"
            )
    return known


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
