"""Snapshots of a whole stream: the model's state, where each source stands, and what the output has seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import CheckpointError, InputError, OtherModelError, UsageError
from pipelines.exporting.runtime import OnnxStep
from pipelines.streaming.messages import Place
from pipelines.streaming.predicting.engine import SteppingModel

if TYPE_CHECKING:
    from pipelines.model.continual_model import ContinualModel
    from pipelines.model.state import StreamState

KEY = "stream"
VERSION = "1"


@dataclass(frozen=True)
class SourceProgress:
    """Where one source stands."""

    name: str
    place: Place
    slot: int | None  # its row of the state; None: it has not started, or is over
    over: bool
    smoothing: list[list[float]]  # what the interpreter remembers
    recent: list[list[float]] = field(default_factory=list)  # rows that a lagging model's last answers depend on


@dataclass(frozen=True)
class StreamSnapshot:
    """Everything but the model's weights that a stream goes on from."""

    state: StreamState
    sources: tuple[SourceProgress, ...]
    sink: Any  # plain JSON values of whoever writes the output
    settings: dict[str, Any]  # what must be the same when the stream goes on


def keeps_snapshots(model: SteppingModel) -> ContinualModel:
    """The model, where its state can be written to a file."""
    if isinstance(model, OnnxStep):
        raise UsageError(
            f"--snapshot and --resume: {model.path} is an exported model, whose state has no file: stream the "
            "checkpoint that it was made of"
        )
    return model


def save_snapshot(path: Path, model: ContinualModel, snapshot: StreamSnapshot, model_name: str) -> None:
    """Write a snapshot atomically."""
    from pipelines.model.snapshot import save_state

    value = {
        "version": VERSION,
        "sources": [asdict(source) for source in snapshot.sources],
        "sink": snapshot.sink,
        "settings": snapshot.settings,
        "model": model_name,
    }
    save_state(snapshot.state, model.config, path, {KEY: json.dumps(value)})


def load_snapshot(path: Path, model: ContinualModel) -> StreamSnapshot:
    """Read a snapshot that was written for the same model."""
    if not path.exists():
        raise InputError(
            f"there is no snapshot {path} to resume from: leave --resume out, and --snapshot {path} will write one"
        )
    from pipelines.model.snapshot import read_extra

    extra = read_extra(path)
    if KEY not in extra:
        raise CheckpointError(f"{path} is a stream state, but not a snapshot of `cotrans stream`")
    try:
        value = json.loads(extra[KEY])
        if value["version"] != VERSION:
            raise CheckpointError(f"{path} was written by another version of cotrans (snapshot {value['version']})")
        sources = tuple(SourceProgress(**{**source, "place": Place(**source["place"])}) for source in value["sources"])
        sink, settings = value["sink"], value["settings"]
        name = value.get("model")  # older snapshots do not say it
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is a damaged snapshot ({error})") from error
    try:
        state = model.restore(path)
    except OtherModelError as error:
        if name is None:
            raise
        raise CheckpointError(f"{path} is the state of another model, {name}: resume with --model {name}") from error
    return StreamSnapshot(state, sources, sink, settings)


def check_same(path: Path, snapshot: StreamSnapshot, names: Sequence[str], settings: dict[str, Any]) -> None:
    """A stream can only go on with the same sources and settings."""
    theirs = [source.name for source in snapshot.sources]
    if theirs != list(names):
        raise UsageError(f"{path} is a snapshot of {', '.join(theirs)}: name the same sources in the same order")
    for name, value in snapshot.settings.items():
        if settings.get(name) != value:
            raise UsageError(f"{path} was made with {name} {value}, not {settings.get(name)}: resume with the same")
