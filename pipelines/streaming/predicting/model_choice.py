"""Which models a stream runs: those that the user names, or one that fits what the sources hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.checkpoints.builtin import find_model
from pipelines.errors import UsageError
from pipelines.features.default_features import tracks_of
from pipelines.settings import DEFAULT_MODEL, load_settings
from pipelines.streaming.sources.source import StreamSource

FOR_SOUND, FOR_PICTURES = DEFAULT_MODEL, "objects"
SEPARATOR = ","


@dataclass(frozen=True)
class ModelChoice:
    """Names or files of models."""

    names: tuple[str, ...]
    reason: str | None = None  # why, where nobody has named one


def choose_models(given: str | None, sources: Sequence[StreamSource]) -> ModelChoice:
    """The models that `given` names (`A,B`), else the user's default, else one for sound or for silent pictures.

    A name that means nothing is refused here, before anything is loaded.
    """
    choice = _choose(given, sources)
    for name in choice.names:
        find_model(name)
    return choice


def _choose(given: str | None, sources: Sequence[StreamSource]) -> ModelChoice:
    if given is not None:
        names = [given] if Path(given).exists() else [name.strip() for name in given.split(SEPARATOR)]
        if not all(names):
            raise UsageError(f"--model {given}: separate models by one comma, as in {FOR_SOUND},{FOR_PICTURES}")
        return ModelChoice(tuple(names))
    if (chosen := load_settings().default_model) is not None:
        return ModelChoice((chosen,))
    there = [source for source in sources if not source.problem]
    tracks = tracks_of((Path(source.target) for source in there if source.kind == "media"), until_sound=True)
    cameras = sum(source.kind == "camera" for source in there)
    # Addresses, microphones, pipes: sound, as far as anybody knows.
    others = any(source.kind not in ("media", "camera") for source in there)
    if not others and not tracks.with_sound and (tracks.with_pictures or cameras):
        return ModelChoice((FOR_PICTURES,), "pictures and no sound")
    return ModelChoice((FOR_SOUND,), "sound" if tracks.with_sound else None)
