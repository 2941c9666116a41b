"""Audio extractors by name."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import UsageError
from pipelines.features.audio import librosa_features
from pipelines.features.extractor import AudioExtractor
from pipelines.features.spec import Align, Option

# The module and the function that builds an extractor, imported when it is built: `logmel` needs no PyTorch.
BUILDERS: Mapping[str, tuple[str, str]] = {
    "vggish": ("pipelines.features.audio.vggish", "build_vggish"),
    "musicnn": ("pipelines.features.audio.musicnn.extractor", "build_musicnn"),
    "logmel": ("pipelines.features.audio.logmel", "build_logmel"),
    "speech": ("pipelines.features.audio.speech.extractor", "build_speech"),
    "soundnet": ("pipelines.features.audio.soundnet.extractor", "build_soundnet"),
    "yamnet": ("pipelines.features.audio.yamnet", "build_yamnet"),
}
AUDIO_EXTRACTORS = (*BUILDERS, *librosa_features.BUILDERS)
# Parameters of the builders that are not options of the extractor.
NOT_OPTIONS = ("hop", "weights_path", "random_weights", "align")
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def audio_options(name: str) -> dict[str, Option]:
    """The options of an extractor and their defaults."""
    parameters = inspect.signature(_builder(name)).parameters
    return {key: value.default for key, value in parameters.items() if key not in NOT_OPTIONS}


def needs_weights(name: str) -> bool:
    """Whether the extractor takes a weight file (`musicnn`, `speech` and `soundnet` bring their own)."""
    return "weights_path" in inspect.signature(_builder(name)).parameters


def build_audio_extractor(
    name: str,
    hop: float,
    options: Mapping[str, Option] | None = None,
    weights_path: Path | None = None,
    random_weights: bool = False,
    align: Align = "causal",
) -> AudioExtractor:
    """A new extractor at the start of a stream.

    `options` may hold text for numbers and switches, as a command line has it; `audio_options` lists them.
    """
    if not hop > 0:
        raise UsageError(f"the hop between feature rows must be positive, not {hop}")
    known = audio_options(name)
    arguments: dict[str, Any] = {}
    for key, value in (options or {}).items():
        if key not in known:
            raise UsageError(f"{name} has no option '{key}': choose from {', '.join(known)}")
        arguments[key] = _as_type_of(known[key], value, f"option {key} of {name}")
    if needs_weights(name):
        if weights_path is not None and random_weights:
            raise UsageError(f"{name} got a weight file and random weights: choose one")
        arguments |= {"weights_path": weights_path, "random_weights": random_weights}
    elif weights_path is not None or random_weights:
        raise UsageError(f"{name} has no weights: leave the weight file or the random weights out")
    return _builder(name)(hop, **arguments, align=align)


def _builder(name: str) -> Callable[..., AudioExtractor]:
    if name in librosa_features.BUILDERS:
        return librosa_features.BUILDERS[name]
    if name not in BUILDERS:
        raise UsageError(f"there is no audio extractor '{name}': choose from {', '.join(AUDIO_EXTRACTORS)}")
    module, function = BUILDERS[name]
    builder: Callable[..., AudioExtractor] = getattr(importlib.import_module(module), function)
    return builder


def _as_type_of(default: Option, value: Option, what: str) -> Option:
    kind = type(default)
    if isinstance(default, bool):
        text = str(value).lower()
        if text not in TRUE + FALSE:
            raise UsageError(f"{what} must be true or false, not '{value}'")
        return text in TRUE
    try:
        converted = kind(value)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{what} must be a number, not '{value}'") from error
    if isinstance(converted, float) and not math.isfinite(converted):
        raise UsageError(f"{what} must be a finite number, not {value}")
    if isinstance(value, float) and float(converted) != value:
        raise UsageError(f"{what} must be a whole number, not {value}")
    return converted
