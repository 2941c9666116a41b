"""Stream state in a file: safetensors with the configuration that it belongs to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pipelines.errors import CheckpointError, ConfigurationError, InputError, OtherModelError
from pipelines.model.base_config import DEFAULT_KIND, BaseConfig, parse_config
from pipelines.model.state import StreamState
from pipelines.tensor_file import write_tensors
from pipelines.untrusted.parsing import json_value

FORMAT = "cotrans-state"
VERSION = 1
CHECKSUM = "checksum"
_KEYS = ("version", "config", "rows", "extra")


def save_state(state: StreamState, config: BaseConfig, path: Path, extra: dict[str, str] | None = None) -> None:
    """Write a state atomically. extra: the caller's own text values, returned by `read_extra`."""
    tensors = {f"{index:03d}": tensor for index, tensor in enumerate(state.tensors())}
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "config": config.to_json(),
        "rows": str(state.batch_size),
        "extra": json.dumps(extra or {}),
    }
    write_tensors(path, tensors, {**metadata, CHECKSUM: _checksum(metadata, list(tensors.values()))})


def restore_state(path: Path, config: BaseConfig, initial_state: Callable[[int], StreamState]) -> StreamState:
    """Read a state for a model of configuration `config`."""
    metadata, tensors = _read(path)
    try:
        values = parse_config(metadata["config"])
        kind = values.get("kind", DEFAULT_KIND)
        if kind != config.kind:
            raise CheckpointError(f"{path} is the state of another model (kind {kind} instead of {config.kind})")
        theirs = config.from_dict(values)
    except ConfigurationError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if theirs != config:
        raise OtherModelError(f"{path} is the state of another model ({_difference(theirs, config)}): use that one")
    rows = metadata["rows"]
    if not tensors or not tensors[0].dim() or not rows.isdecimal() or int(rows) != tensors[0].shape[0] or rows == "0":
        raise CheckpointError(f"{path} is damaged: it speaks of {rows} streams and does not hold them")
    empty = initial_state(int(rows))
    wanted = empty.tensors()
    if len(wanted) != len(tensors) or any(
        mine.shape != theirs.shape or mine.dtype != theirs.dtype for mine, theirs in zip(wanted, tensors, strict=True)
    ):
        raise CheckpointError(
            f"{path} does not have the tensors of this model's state: it was saved in another precision, or by the "
            "exported model instead of the checkpoint (or the other way round): resume with the same"
        )
    if metadata.get(CHECKSUM, _checksum(metadata, tensors)) != _checksum(metadata, tensors):  # early ones have none
        raise CheckpointError(f"{path} is damaged or was changed: it does not have the checksum of what was saved")
    stored = iter(tensors)
    return empty.map(lambda tensor: next(stored).to(tensor.device))


def read_extra(path: Path) -> dict[str, str]:
    """What the caller of `save_state` put beside the state."""
    metadata, _ = _read(path)
    try:
        extra = json_value(metadata["extra"])
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: what stands beside the state is not JSON") from error
    if not isinstance(extra, dict):
        raise CheckpointError(f"{path} is damaged: what stands beside the state is not a JSON object")
    return {str(key): str(value) for key, value in extra.items()}


def _checksum(metadata: dict[str, str], tensors: list[Tensor]) -> str:
    """SHA-256 of everything in a file but itself: finds damage, not malice."""
    digest = hashlib.sha256()
    for key in ("format", *_KEYS):
        digest.update(f"{key}={metadata[key]}\n".encode())
    for tensor in tensors:
        whole = tensor.detach().cpu().reshape(-1).clone(memory_format=torch.contiguous_format)
        digest.update(whole.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _difference(theirs: BaseConfig, ours: BaseConfig) -> str:
    """The first thing that tells two models apart; the rest would not say more."""
    names = [name for name in theirs.to_dict() if getattr(theirs, name) != getattr(ours, name)]
    first = names[0]
    return f"{first.replace('_', ' ')} {getattr(theirs, first)} instead of {getattr(ours, first)}"


def _read(path: Path) -> tuple[dict[str, str], list[Tensor]]:
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise CheckpointError(f"{path} is not a stream state of cotrans")
            missing = [key for key in _KEYS if key not in metadata]
            if missing or not metadata["version"].isdecimal():
                raise CheckpointError(f"{path} is damaged: it does not say its {', '.join(missing) or 'version'}")
            if int(metadata["version"]) > VERSION:
                raise CheckpointError(f"{path} was written by a newer cotrans (state version {metadata['version']})")
            return metadata, [file.get_tensor(name) for name in sorted(file.keys())]
    except FileNotFoundError as error:
        raise InputError(f"there is no stream state at {path}: check the name") from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is damaged or not a stream state: {error}") from error
