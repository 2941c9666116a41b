"""Whether a model may be given features that were made in another way than those it was trained on."""

from __future__ import annotations

from pipelines.errors import ConfigurationError
from pipelines.features.audio import AUDIO_EXTRACTORS, build_audio_extractor, needs_weights
from pipelines.features.request import FeatureRequest
from pipelines.features.spec import ExtractorSpec, FeatureSpec, Option, spec_difference
from pipelines.features.stream_factory import StreamFactory, known_options

# Options that decide which numbers a row holds: with others, nothing in it means what the model has learned.
DECISIVE = ("network", "output")
BRING_WEIGHTS = ("musicnn", "speech", "soundnet")  # take a weight file, and have one where none is given


def check_features(given: FeatureSpec | None, wanted: FeatureSpec | None, model: str, remedy: str) -> str | None:
    """A remark about features that were made in another way; those of another extractor or network are an error.

    model: the beginning of the sentence, such as "m.safetensors"; remedy: what to do about an error. What nobody knows
    is the user's word.
    """
    if given is None or wanted is None:
        return None
    difference = spec_difference(given, wanted)
    if difference is None:
        return None
    if _is_other(given, wanted):
        raise ConfigurationError(f"{model} was trained on other features: these {difference}; {remedy}")
    return f"{model} was trained on features that were made differently: these {difference}"


def flags_for(given_spec: FeatureSpec, wanted: FeatureSpec) -> str:
    """What a command line that gives `given_spec` lacks or has otherwise: "--hop 0.25 --feature-option network=mtt"."""
    flags = [f"--features {wanted.name}"] if given_spec.name != wanted.name else []
    flags += [f"--hop {wanted.hop:g}"] if given_spec.hop != wanted.hop else []
    given = {part.name: _chosen(part, given_spec.hop) for part in given_spec.parts}
    for part in wanted.parts:
        prefix = f"{part.name}." if len(wanted.parts) > 1 else ""
        chosen, other = _chosen(part, wanted.hop), given.get(part.name, {})
        # What was chosen there and is at its default here has to be said too.
        options = {**{key: _value(part, key) for key in other if key not in chosen}, **chosen}
        differing = {key: value for key, value in options.items() if other.get(key) != value}
        flags += [f"--feature-option {prefix}{key}={value}" for key, value in differing.items()]
    return " ".join(flags)


def _is_other(given: FeatureSpec, wanted: FeatureSpec) -> bool:
    """Of another extractor, network, layer, rate or width."""
    if (given.name, given.hop, given.width) != (wanted.name, wanted.hop, wanted.width):
        return True
    pairs = zip(given.parts, wanted.parts, strict=True)
    return any(part.options.get(key) != other.options.get(key) for part, other in pairs for key in DECISIVE)


def _chosen(part: ExtractorSpec, hop: float) -> dict[str, Option]:
    """The options of an extractor that are not at their defaults, some of which follow from the hop."""
    # One that can be built anywhere says what its defaults come to.
    built = part.name in AUDIO_EXTRACTORS and (part.name in BRING_WEIGHTS or not needs_weights(part.name))
    defaults = build_audio_extractor(part.name, hop).spec.options if built else known_options(part.name)
    return {key: value for key, value in part.options.items() if defaults.get(key) != value}


def _value(part: ExtractorSpec, key: str) -> Option:
    """An option that may not stand in the specification, where it changes nothing."""
    return part.options[key] if key in part.options else known_options(part.name)[key]


def fitting_spec(request: FeatureRequest, width: int) -> FeatureSpec:
    """The specification of requested features for a model that takes rows of `width` numbers and does not say which."""
    spec = StreamFactory(request, "cpu").prototype().spec
    if spec.width != width:
        parts = " + ".join(f"{part.name} {part.width}" for part in spec.parts)
        raise ConfigurationError(
            f"--features {request.names} give rows of {spec.width} ({parts}), but the model takes rows of {width}: "
            "name the features that it was trained on"
        )
    return spec
