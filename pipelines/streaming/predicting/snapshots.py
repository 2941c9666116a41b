"""Snapshots of a whole stream: the model's state, where each source stands, and what the output has seen."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import CheckpointError, InputError, OtherModelError, UsageError
from pipelines.exporting.runtime import OnnxStep
from pipelines.features.request import SHORTEST_HOP
from pipelines.metrics.class_order import check_state
from pipelines.streaming.messages import Place
from pipelines.streaming.predicting.engine import SteppingModel, model_config
from pipelines.streaming.predicting.onnx_engine import stream_state
from pipelines.untrusted.parsing import json_value
from pipelines.wording import one_line

if TYPE_CHECKING:
    from pipelines.model.state import StreamState

KEY = "stream"
VERSION = "1"
NEWER = ("activation",)  # settings that older snapshots do not say


@dataclass(frozen=True)
class SourceProgress:
    """Where one source stands."""

    name: str
    place: Place
    slot: int | None  # its row of the state; None: it has not started, or is over
    over: bool
    smoothing: list[list[float]]  # what the interpreter remembers
    recent: list[list[float]] = field(default_factory=list)  # rows that a lagging model's last answers depend on
    order: list[float] = field(default_factory=list)  # where it stands among classes that follow each other
    newest: list[float] = field(default_factory=list)  # index, time, begin and end of its last row; older files: none


@dataclass(frozen=True)
class StreamSnapshot:
    """Everything but the model's weights that a stream goes on from."""

    state: StreamState
    sources: tuple[SourceProgress, ...]
    sink: Any  # plain JSON values of whoever writes the output
    settings: dict[str, Any]  # what must be the same when the stream goes on


def save_snapshot(path: Path, model: SteppingModel, snapshot: StreamSnapshot, model_name: str) -> None:
    """Write a snapshot atomically."""
    from pipelines.model.snapshot import save_state

    value = {
        "version": VERSION,
        "sources": [asdict(source) for source in snapshot.sources],
        "sink": snapshot.sink,
        "settings": snapshot.settings,
        "model": model_name,
    }
    save_state(snapshot.state, model_config(model), path, {KEY: json.dumps(value)})


def load_snapshot(path: Path, model: SteppingModel) -> StreamSnapshot:
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
        value = json_value(extra[KEY])
        if value["version"] != VERSION:
            raise CheckpointError(f"{path} was written by another version of cotrans (snapshot {value['version']})")
        sources = tuple(SourceProgress(**{**source, "place": Place(**source["place"])}) for source in value["sources"])
        sink, settings = value["sink"], value["settings"]
        name = value.get("model")  # older snapshots do not say it
        if not isinstance(settings, dict):
            raise ValueError("its settings are no settings")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is a damaged snapshot ({one_line(str(error))})") from error
    try:
        state = _restored(path, model)
    except OtherModelError as error:
        if name is None:
            raise
        raise CheckpointError(f"{path} is the state of another model, {name}: resume with --model {name}") from error
    try:
        _check_whole(sources, state, model)
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged or was changed: {error}; start the stream again") from error
    return StreamSnapshot(state, sources, sink, settings)


def _restored(path: Path, model: SteppingModel) -> StreamState:
    if not isinstance(model, OnnxStep):
        return model.restore(path)
    from pipelines.model.snapshot import restore_state

    return restore_state(path, model_config(model), lambda rows: stream_state(model.initial_state(rows)))


def _check_whole(sources: Sequence[SourceProgress], state: StreamState, model: SteppingModel) -> None:
    """ValueError where the parts of a snapshot, each of them possible, do not fit together."""
    slots = [source.slot for source in sources if source.slot is not None]
    if len(set(slots)) < len(slots):
        raise ValueError("two sources have the same row of the state")
    seen = state.position.tolist()
    for source in sources:
        place = source.place
        if not isinstance(source.name, str) or not isinstance(source.over, bool):
            raise ValueError("a source is not described")
        if not all(_is_count(number) for number in (place.turn, place.row, place.index)) or place.index < place.row:
            raise ValueError(f"{one_line(source.name)} stands at no place of a stream")
        if source.slot is not None:
            if not _is_count(source.slot) or source.slot >= len(seen) or source.over:
                raise ValueError(f"{one_line(source.name)} has the row {source.slot} of a state of {len(seen)}")
            if seen[source.slot] > place.index:
                raise ValueError(f"the state has seen more rows of {one_line(source.name)} than there were")
        elif not source.over and place != Place():
            raise ValueError(f"{one_line(source.name)} has begun, and has no row of the state")
        # Where the model has a rule for "none of these", its evidence stands behind the probabilities.
        for row in _rows_of(source.smoothing, (model.config.classes, model.config.classes + 1)):
            if not all(0.0 <= value <= 1.0 for value in row[: model.config.classes]):
                raise ValueError("probabilities that are none")
        _rows_of(source.recent, (model.config.input_width,))
        (newest,) = _rows_of([source.newest], (0, 4))
        if newest and not (newest[0] >= 0 and newest[3] - newest[2] > SHORTEST_HOP / 2):  # times are rounded
            raise ValueError("a last row that is none")
        check_state(_rows_of([source.order], (0, model.config.classes + 1))[0], model.config.classes)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _rows_of(values: object, widths: tuple[int, ...]) -> list[list[float]]:
    """A list of rows of finite numbers, each of one of the widths."""
    if not isinstance(values, list):
        raise ValueError("rows are missing")
    for row in values:
        if not isinstance(row, list) or len(row) not in widths:
            raise ValueError("a row has the wrong width")
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in row):
            raise ValueError("a row holds something other than numbers")
    return values


def check_same(path: Path, snapshot: StreamSnapshot, names: Sequence[str], settings: dict[str, Any]) -> None:
    """A stream can only go on with the same sources and settings."""
    theirs = [source.name for source in snapshot.sources]
    if theirs != list(names):
        raise UsageError(f"{path} is a snapshot of {', '.join(theirs)}: name the same sources in the same order")
    for name, value in settings.items():
        theirs_value = snapshot.settings.get(name, value if name in NEWER else None)
        if theirs_value != value:
            raise UsageError(f"{path} was made with {name} {theirs_value}, not {value}: resume with the same")
    if snapshot.state.batch_size != settings["rows"]:
        raise CheckpointError(f"{path} is damaged or was changed: its state is not of {settings['rows']} streams")
