"""Our own checkpoints: safetensors that say what they are.

The metadata carries the format version, the model's configuration, class names, the feature specification, where the
weights came from, and a checksum of the weights. Loading is strict: a file either is exactly right or is refused.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pipelines.errors import CheckpointError, ConfigurationError, CotransError, InputError
from pipelines.features.spec import FeatureSpec
from pipelines.metrics.class_order import ClassOrder
from pipelines.metrics.probabilities import SCORE_KINDS, ScoreKind, least_of, smoothing_of
from pipelines.metrics.rejection import Rejection
from pipelines.model.base_config import BaseConfig
from pipelines.model.continual_model import ContinualModel
from pipelines.model.kinds import config_from_json, make_model
from pipelines.tensor_file import write_tensors
from pipelines.untrusted.parsing import choice_of, json_value
from pipelines.wording import listed, one_line

FORMAT = "cotrans-model"
VERSION = 1
_KEYS = ("format", "version", "config", "class_names", "features", "provenance", "checksum")
_PRECISIONS = (torch.float32, torch.float64)
MOST_COMPUTED = 2**28  # numbers that are computed from the configuration: no tensor in the file bounds them


@dataclass(frozen=True)
class Checkpoint:
    """A model and everything that its file says about it."""

    model: ContinualModel  # in evaluation mode, on the CPU
    config: BaseConfig
    class_names: tuple[str, ...]
    features: FeatureSpec | None  # what the model was trained on; None: unknown
    provenance: Mapping[str, Any]  # where the weights came from; plain JSON values
    score_kind: ScoreKind = "softmax"  # how logits become probabilities
    rejection: Rejection | None = None  # when the answer is "none of these"; None: never
    smoothing: float = 0.0  # seconds over which a stream averages probabilities unless told otherwise
    order: ClassOrder | None = None  # how the classes follow each other; None: any may follow any
    least: float = 0.0  # seconds: shorter stretches of a stream are left out unless told otherwise


@dataclass(frozen=True)
class CheckpointHeader:
    """What a checkpoint says about itself: `load_checkpoint` without the weights."""

    config: BaseConfig
    class_names: tuple[str, ...]
    features: FeatureSpec | None
    provenance: Mapping[str, Any]
    version: int
    checksum: str
    shapes: Mapping[str, tuple[int, ...]]
    precision: str  # "float32" or "float64"
    score_kind: ScoreKind
    rejection: Rejection | None
    smoothing: float
    order: ClassOrder | None
    least: float


def default_class_names(classes: int) -> tuple[str, ...]:
    """Names for classes that nobody has named."""
    return tuple(f"class {index}" for index in range(classes))


def save_checkpoint(
    path: str | Path,
    model: ContinualModel,
    class_names: Sequence[str] | None = None,
    features: FeatureSpec | None = None,
    provenance: Mapping[str, Any] | None = None,
    score_kind: ScoreKind | None = None,
    rejection: Rejection | None = None,
    smoothing: float = 0.0,
    order: ClassOrder | None = None,
    least: float = 0.0,
) -> None:
    """Write a model atomically. class_names: one for each class; None: "class 0", "class 1", …

    provenance: plain JSON values, for example {"source": …, "command": …}. score_kind: how logits become
    probabilities; None: as the loss in the provenance says, softmax where there is none. rejection: when the answer
    is "none of these". smoothing: seconds over which a stream averages probabilities unless told otherwise. order: how
    the classes follow each other, where they do. least: seconds, below which a stretch of a stream is left out.
    """
    config = model.config
    names = default_class_names(config.classes) if class_names is None else tuple(class_names)
    kind = score_kind or _trained_score_kind(provenance or {})
    _check_description(config, names, features)
    _check_order(config, kind, order)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    _check_values(tensors, "the model")
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "config": config.to_json(),
        "class_names": json.dumps(names, ensure_ascii=False),
        "features": json.dumps(None if features is None else features.to_dict(), ensure_ascii=False),
        "provenance": json.dumps(dict(provenance or {}), ensure_ascii=False, allow_nan=False),
        "score_kind": kind,
        "rejection": json.dumps(None if rejection is None else rejection.to_dict()),
        "smoothing": json.dumps(smoothing, allow_nan=False),
        "order": json.dumps(None if order is None else order.to_dict(), allow_nan=False),
        "least": json.dumps(least, allow_nan=False),
        "checksum": _checksum(tensors),
    }
    write_tensors(Path(path), tensors, metadata)


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a model that `save_checkpoint` wrote; anything else is a CheckpointError that says why."""
    path = Path(path)
    header = read_header(path)
    model = build_model(header, path)
    tensors = read_tensors(path)
    if _checksum(tensors) != header.checksum:
        raise CheckpointError(
            f"{path} is damaged: its weights do not have the checksum that was written with them; copy it again"
        )
    _check_values(tensors, str(path))
    model.load_state_dict(tensors, assign=True)
    return Checkpoint(
        model.eval(),
        header.config,
        header.class_names,
        header.features,
        header.provenance,
        header.score_kind,
        header.rejection,
        header.smoothing,
        header.order,
        header.least,
    )


def read_header(path: Path) -> CheckpointHeader:
    """What a checkpoint says about itself, without reading its weights."""
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            kinds = sorted({str(part.get_dtype()) for part in slices.values()})
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, error) from error
    version = _check_format(path, metadata)
    precision = {"F32": "float32", "F64": "float64"}.get(" ".join(kinds))
    if precision is None:
        raise CheckpointError(f"{path} holds weights of type {' and '.join(kinds)}; a checkpoint has F32 or F64 only")
    try:
        config = config_from_json(metadata["config"])
        names = _class_names(metadata["class_names"])
        described = json_value(metadata["features"])
        features = None if described is None else FeatureSpec.from_dict(described)
        provenance = json_value(metadata["provenance"])
        rule = json_value(metadata.get("rejection", "null"))  # files from before there were any have none
        rejection = None if rule is None else Rejection.from_dict(rule)
        smoothing = smoothing_of(json_value(metadata.get("smoothing", "0")))
        least = least_of(json_value(metadata.get("least", "0")))
        following = json_value(metadata.get("order", "null"))
        order = None if following is None else ClassOrder.from_dict(following)
        _check_description(config, names, features)
    except (ValueError, TypeError, AttributeError, RecursionError, CotransError) as error:
        raise CheckpointError(f"{path} describes itself wrongly: {one_line(str(error))}") from error
    if not isinstance(provenance, dict):
        raise CheckpointError(f"{path} describes itself wrongly: the provenance is not a JSON object")
    kind = _score_kind(path, metadata.get("score_kind"), provenance)
    try:
        _check_order(config, kind, order)
    except ConfigurationError as error:
        raise CheckpointError(f"{path} describes itself wrongly: {error}") from error
    return CheckpointHeader(
        config,
        names,
        features,
        provenance,
        version,
        metadata["checksum"],
        shapes,
        precision,
        kind,
        rejection,
        smoothing,
        order,
        least,
    )


def build_model(header: CheckpointHeader, path: Path) -> ContinualModel:
    """An empty model for the weights of a checkpoint, which must have exactly its tensors."""
    config, shapes = header.config, header.shapes
    if config.depth > len(shapes) or config.computed_numbers > MOST_COMPUTED:
        raise CheckpointError(f"{path} is damaged: its configuration is too large for the weights in it")
    model = empty_model(config, getattr(torch, header.precision))
    check_shapes({name: tuple(value.shape) for name, value in model.state_dict().items()}, shapes, str(path))
    return model


def empty_model(config: BaseConfig, dtype: torch.dtype = torch.float32) -> ContinualModel:
    """A model whose weights have shapes and no values yet: no memory, no random numbers."""
    with torch.device("meta"):
        return make_model(config).to(dtype)


def check_shapes(wanted: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Refuse weights with missing, extra or mis-shaped tensors; the message lists them."""
    problems = [f"{name} is missing" for name in wanted if name not in shapes]
    problems += [f"{name} is not part of the model" for name in shapes if name not in wanted]
    problems += [
        f"{name} is {shape_text(shapes[name])} instead of {shape_text(shape)}"
        for name, shape in wanted.items()
        if name in shapes and shapes[name] != shape
    ]
    if problems:
        raise CheckpointError(f"{where} does not fit its model: {listed(problems, separator='; ')}")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of a safetensors file."""
    try:
        with safe_open(path, "pt") as file:
            # Copies: what the library returns is mapped from the file, at addresses that slow matrix products down.
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, error) from error


def shape_text(shape: Sequence[int]) -> str:
    """A shape in a message: 3×4."""
    return "×".join(map(str, shape)) or "a single number"


def _unreadable(path: Path, error: Exception) -> CotransError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"there is no checkpoint {path}")
    if isinstance(error, IsADirectoryError) or path.is_dir():
        return InputError(f"{path} is a folder: give the checkpoint in it")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return CheckpointError(f"{path} is damaged, truncated or not a safetensors file ({one_line(reason)})")


def _check_format(path: Path, metadata: Mapping[str, str]) -> int:
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} is not a checkpoint of cotrans; `cotrans convert {path}` makes one of another project's model"
        )
    version = metadata.get("version", "")
    if not version.isdecimal():
        raise CheckpointError(f"{path} is damaged: its format version is '{version}'")
    if int(version) > VERSION:
        raise CheckpointError(
            f"{path} was written by a newer cotrans (checkpoint version {version}, this one reads {VERSION}): update it"
        )
    missing = [key for key in _KEYS if key not in metadata]
    if missing:
        raise CheckpointError(f"{path} is damaged: it does not say its {', '.join(missing)}")
    return int(version)


def _score_kind(path: Path, written: str | None, provenance: Mapping[str, Any]) -> ScoreKind:
    """What the file says; files from before it was said have it in the loss that they were trained with."""
    if written is None:
        return _trained_score_kind(provenance)
    try:
        return choice_of(written, SCORE_KINDS)
    except ValueError:
        raise CheckpointError(
            f"{path} has scores of a kind that this cotrans does not know ('{written}'): update it"
        ) from None


def _trained_score_kind(provenance: Mapping[str, Any]) -> ScoreKind:
    recipe = provenance.get("recipe")
    training, data = (_section(recipe, name) for name in ("training", "data"))
    loss = provenance.get("loss") or training.get("loss", "cross-entropy")
    if loss == "auto":
        several = _section(data, "options").get("multi_label") or data.get("dataset") in ("thumos14", "tvseries")
        loss = "binary" if several else "cross-entropy"
    return "sigmoid" if loss == "binary" else "softmax"


def _section(values: Any, name: str) -> Mapping[str, Any]:
    section = values.get(name) if isinstance(values, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def _class_names(text: str) -> tuple[str, ...]:
    names = json_value(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigurationError("the class names are not a list of texts")
    return tuple(names)


def _check_description(config: BaseConfig, names: tuple[str, ...], features: FeatureSpec | None) -> None:
    if len(names) != config.classes:
        raise ConfigurationError(f"there are {len(names)} class names for {config.classes} classes")
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated or not all(name.strip() for name in names):
        what = f"'{repeated[0]}' names two classes" if repeated else "a class name is empty"
        raise ConfigurationError(f"class names must be different and not empty: {what}")
    if features is not None and features.width != config.input_width:
        raise ConfigurationError(
            f"the features {features.name} have {features.width} numbers per row, the model takes {config.input_width}"
        )


def _check_order(config: BaseConfig, kind: ScoreKind, order: ClassOrder | None) -> None:
    if order is None:
        return
    if kind != "softmax":
        raise ConfigurationError("classes that follow each other are there one at a time: their scores are softmax")
    if len(order.dwells) != config.classes:
        raise ConfigurationError(f"the order is of {len(order.dwells)} classes, the model has {config.classes}")


def _check_values(tensors: Mapping[str, Tensor], where: str) -> None:
    wrong = [name for name, tensor in tensors.items() if tensor.dtype not in _PRECISIONS]
    if wrong:
        raise CheckpointError(f"{where} has weights that are neither float32 nor float64: {listed(wrong)}")
    broken = [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]
    if broken:
        raise CheckpointError(f"{where} has NaN or infinity in its weights: {listed(broken)}; take an earlier one")


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """CRC-32 of names and values in order of name: finds damage, not malice."""
    value = 0
    for name in sorted(tensors):
        value = zlib.crc32(name.encode(), value)
        value = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, value)
    return f"crc32:{value:08x}"
