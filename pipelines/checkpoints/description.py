"""What a file is: `cotrans info` for every kind of file that cotrans reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from pipelines.checkpoints.builtin import find_model
from pipelines.checkpoints.checkpoint import build_model, read_header
from pipelines.checkpoints.foreign_files.source_file import SourceFile, file_kind, read_source
from pipelines.checkpoints.opening import import_source, recognised_as
from pipelines.errors import CheckpointError, CotransError, InputError, SourceError, UsageError
from pipelines.features.spec import FeatureSpec
from pipelines.metrics.class_order import ClassOrder
from pipelines.metrics.probabilities import ScoreKind
from pipelines.metrics.rejection import Rejection
from pipelines.model import snapshot
from pipelines.untrusted.parsing import json_value

STRONGEST = 5  # classes of a network that are named, by their highest value in a recording
_MODEL_SUFFIXES = (".pth", ".pt", ".ckpt", ".bin", ".tar", ".safetensors")


@dataclass(frozen=True)
class Description:
    """What a file is: a kind, one line about it, and details that depend on the kind (plain JSON types)."""

    path: Path
    kind: str  # "checkpoint", "model of another project", "stream state", "features", "media", "exported step"
    summary: str
    details: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"path": str(self.path), "kind": self.kind, "summary": self.summary, **self.details}


def describe(path: Path) -> Description:
    """Say what a file is; path may also name a built-in model or the folder of a run.

    Files that nothing here reads are an InputError, damaged ones the error of their kind.
    """
    if not path.is_file():
        if not path.is_dir() and (path.suffix or len(path.parts) > 1):  # no name of a model, but a place
            raise InputError(f"there is no file {path}")
        path = find_model(path)
    return _describer(path)(path)


def _describer(path: Path) -> Callable[[Path], Description]:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _features
    if suffix == ".json":
        return _manifest
    if suffix in _MODEL_SUFFIXES:
        return _model
    with path.open("rb") as file:
        start = file.read(16)
    if start[:4] == b"PK\x03\x04" or start[8:9] == b"{":
        return _model
    return _media


def _model(path: Path) -> Description:
    kind = file_kind(path)
    if kind == "cotrans":
        return _checkpoint(path)
    source = read_source(path)
    if source.kind == "safetensors" and snapshot.FORMAT in _metadata(path).values():
        return _state(path)
    return _other_model(path, source)


def _checkpoint(path: Path) -> Description:
    header = read_header(path)
    build_model(header, path)  # refuses tensors that are not those of the configuration
    config = header.config
    parameters = sum(map(math.prod, header.shapes.values()))
    summary = f"{config.summary()}, {config.input_width} inputs, {config.classes} classes"
    details = {
        "format_version": header.version,
        "precision": header.precision,
        "parameters": parameters,
        "config": config.to_dict(),
        "class_names": list(header.class_names),
        **stream_details(header),
        "provenance": dict(header.provenance),
        "checksum": header.checksum,
    }
    return Description(path, "checkpoint", summary, details)


class StreamedModel(Protocol):
    """What a model's file says about the answers of a stream."""

    @property
    def features(self) -> FeatureSpec | None: ...
    @property
    def score_kind(self) -> ScoreKind: ...
    @property
    def rejection(self) -> Rejection | None: ...
    @property
    def smoothing(self) -> float: ...
    @property
    def order(self) -> ClassOrder | None: ...
    @property
    def least(self) -> float: ...


def stream_details(model: StreamedModel) -> dict[str, Any]:
    """How rows become answers."""
    return {
        "score_kind": model.score_kind,
        "none_of_these": None if model.rejection is None else model.rejection.to_dict(),
        "smoothing": model.smoothing,
        "least": model.least,
        "order": None if model.order is None else model.order.to_dict(),
        "features": None if model.features is None else model.features.to_dict(),
    }


def _other_model(path: Path, source: SourceFile) -> Description:
    try:
        library, needs = recognised_as(source), None
    except UsageError as error:  # several encoders: which one is for `convert` to be told
        library, needs = "several encoders", str(error)
    numbers = sum(value.numel() for value in source.weights.values())
    details: dict[str, Any] = {
        "library": library,
        "parameters": numbers,
        "tensors": {key: list(value.shape) for key, value in source.weights.items()},
        "beside": list(source.beside),
        "arguments": {str(key): value for key, value in source.arguments.items() if _plain(value)},
        "config": None,
        "needs": needs,
    }
    if library is None:
        summary = f"weights of a model that `cotrans convert` does not know: {len(source.weights)} tensors"
        return Description(path, "model of another project", summary, details)
    try:
        imported = import_source(source)
        details["config"] = imported.config.to_dict()
        summary = f"{imported.kind}: `cotrans convert {path}` makes a streaming model of it"
    except UsageError as error:
        details["needs"] = str(error)
        summary = f"{library}: `cotrans convert {path}` needs to be told more"
    except CotransError as error:
        summary = f"{library}, but `cotrans convert` would refuse it: {error}"
    return Description(path, "model of another project", summary, details)


def _state(path: Path) -> Description:
    metadata = _metadata(path)
    rows = metadata.get("rows", "?")
    details = {
        "rows": int(rows) if rows.isdecimal() else None,
        "extra": {key: _opened(text) for key, text in snapshot.read_extra(path).items()},
    }
    return Description(path, "stream state", f"state of {rows} stream{'s' * (rows != '1')}", details)


def _features(path: Path) -> Description:
    from pipelines.features.audio.yamnet import column_names
    from pipelines.features.files.feature_files import read_features

    features = read_features(path)
    rows, width = features.rows.shape
    spec = features.spec
    summary = f"{rows} rows of {width} numbers"
    if spec is not None:
        summary += f", {spec.name}, one every {spec.hop:g} s"
    details = {
        "rows": rows,
        "width": width,
        "dtype": str(features.rows.dtype),
        "spec": None if spec is None else spec.to_dict(),
        "source": None if features.manifest is None else asdict(features.manifest.source),
    }
    names = () if spec is None else column_names(spec)
    if names and rows:
        peaks = features.rows.max(axis=0).tolist()  # most sounds are shorter than their recording
        strongest = sorted(zip(names, peaks, strict=True), key=lambda pair: -pair[1])[:STRONGEST]
        details["strongest"] = {name: round(peak, 4) for name, peak in strongest}
    return Description(path, "features", summary, details)


def _manifest(path: Path) -> Description:
    from pipelines.features.files.feature_files import read_manifest

    manifest = read_manifest(path)
    summary = f"manifest of {manifest.rows} feature rows, {manifest.spec.name}, from {manifest.source.path}"
    details = {"rows": manifest.rows, "spec": manifest.spec.to_dict(), "source": asdict(manifest.source)}
    return Description(path, "feature manifest", summary, details)


def _media(path: Path) -> Description:
    from pipelines.features.media.probe import probe

    try:
        info = probe(path)
    except InputError as error:
        reason = error.problem if isinstance(error, SourceError) else str(error)
        raise InputError(f"{path} is no kind of file that cotrans reads: {reason}") from error
    parts = [info.format.replace(",", "/")]  # the names of one kind of container
    if info.duration is not None:
        parts.append(f"{info.duration:.2f} s")
    if info.video is not None:
        parts.append(f"video {info.video.width}×{info.video.height}, {info.video.codec}")
    if info.audio is not None:
        parts.append(f"audio {info.audio.rate} Hz, {info.audio.layout}, {info.audio.codec}")
    details = {key: value for key, value in asdict(info).items() if key != "source"}
    return Description(path, "media", ", ".join(parts), details)


def _metadata(path: Path) -> dict[str, str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged, truncated or not a safetensors file ({error})") from error


def _opened(text: str) -> Any:
    """What a text holds, where it is JSON; the text itself where it is not."""
    try:
        return json_value(text)
    except ValueError:
        return text


def _plain(value: object) -> bool:
    """Whether a value can stand in JSON as it is."""
    return isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))
