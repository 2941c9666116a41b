"""A file of another project: its weights by name, and what stands beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from pipelines.checkpoints.checkpoint import FORMAT, read_tensors
from pipelines.errors import CheckpointError, InputError
from pipelines.untrusted.pickled_globals import RefusedNameError
from pipelines.untrusted.safe_pickle import load_pickle
from pipelines.untrusted.torch_file import LEGACY_START, ZIP_START, read_torch_file
from pipelines.wording import listed, one_line

FileKind = Literal["cotrans", "safetensors", "torch"]
# Where training scripts keep the weights in what they save, in the order of looking.
_CONTAINERS = ("model", "state_dict", "model_state_dict", "net", "weights")
# What wrappers put before every key.
_WRAPPERS = ("module.", "_orig_mod.")


@dataclass(frozen=True)
class SourceFile:
    """Weights in the order of the file, in one precision, without the prefixes of wrappers."""

    path: Path
    kind: FileKind
    weights: Mapping[str, Tensor]
    arguments: Mapping[str, Any]  # of the training script (OadTR's `args`); empty where there are none
    beside: tuple[str, ...]  # other entries of the file: "optimizer", "epoch", …


EXPORTED = ".onnx"  # what `cotrans export` writes, which has no weights to read


def file_kind(path: Path) -> FileKind:
    """What a file is, from its first bytes; an error that says what it is instead."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder: give the .pth or .safetensors file in it") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if not start:
        raise CheckpointError(f"{path} is empty: copy or download it again")
    if start.startswith((ZIP_START, LEGACY_START)):
        return "torch"
    if start[8:9] == b"{":
        return "cotrans" if _is_ours(path) else "safetensors"
    if path.suffix.lower() == EXPORTED:
        raise CheckpointError(
            f"{path} is an exported step, for `cotrans stream` and onnxruntime: give the checkpoint that it was made of"
        )
    _refuse_pickle(path)
    text = " ".join(start[:12].decode("ascii", errors="replace").split())
    begins = f" (it begins with '{text}')" if text.isascii() and text.isprintable() else ""
    raise CheckpointError(
        f"{path} is neither a PyTorch nor a safetensors file{begins}: give the .pth, .pt or .safetensors file of a "
        "model"
    )


def _refuse_pickle(path: Path) -> None:
    """Refuse a pickle that torch.save did not write, with the name of what it asks for, if it asks for anything."""
    try:
        load_pickle(path, error=CheckpointError)
    except CheckpointError as error:
        if isinstance(error.__cause__, RefusedNameError):
            raise
        return
    raise CheckpointError(f"{path} is a pickle, but not one of torch.save: save with torch.save(model.state_dict(), …)")


def read_source(path: Path) -> SourceFile:
    """Read a file of another project, safely: nothing in it is run."""
    kind = file_kind(path)
    if kind != "torch":
        return SourceFile(path, kind, _prepared(read_tensors(path)), {}, ())
    value = read_torch_file(path)
    if not isinstance(value, dict):
        raise CheckpointError(
            f"{path} holds a {type(value).__name__}, not a dictionary of weights: save it with "
            "torch.save(model.state_dict(), …)"
        )
    weights, beside = _weights(value, path)
    arguments = value.get("args", value.get("hyper_parameters", {})) if beside else {}
    arguments = arguments if isinstance(arguments, dict) else dict(getattr(arguments, "__dict__", {}))
    return SourceFile(path, kind, _prepared(weights), arguments, beside)


def require_finite(weights: Mapping[str, Tensor], path: Path) -> None:
    """Refuse NaN and infinity, with the names of the tensors that have them."""
    broken = [key for key, value in weights.items() if value.is_floating_point() and not bool(value.isfinite().all())]
    if broken:
        raise CheckpointError(f"{path} has NaN or infinity in its weights: {listed(broken)}; take an earlier one")


def _is_ours(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return (file.metadata() or {}).get("format") == FORMAT
    except SafetensorError as error:
        raise CheckpointError(
            f"{path} is damaged, truncated or not a safetensors file ({one_line(str(error))})"
        ) from error


def _weights(value: dict[Any, Any], path: Path) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The weights in what a script saved, and the names of the other entries."""
    if value and all(isinstance(item, Tensor) for item in value.values()):
        return _checked(value, path), ()
    inside = {
        str(name): part
        for name, part in value.items()
        if isinstance(part, dict) and part and all(isinstance(item, Tensor) for item in part.values())
    }
    for name in _CONTAINERS:
        if name in inside:
            return _checked(inside[name], path), tuple(str(key) for key in value if key != name)
    if len(inside) == 1:
        name, part = next(iter(inside.items()))
        return _checked(part, path), tuple(str(key) for key in value if str(key) != name)
    if inside:
        # Parts saved side by side, {"encoder": …, "head": …}: as if they were modules of one model.
        joined = {f"{name}.{key}": item for name, part in inside.items() for key, item in part.items()}
        return _checked(joined, path), tuple(str(key) for key in value if key not in inside)
    content = listed([str(key) for key in value]) or "nothing"
    raise CheckpointError(
        f"{path} has no weights where we look ({', '.join(_CONTAINERS)}); it holds: {content}; save it with "
        "torch.save(model.state_dict(), …)"
    )


def _checked(weights: dict[Any, Tensor], path: Path) -> dict[str, Tensor]:
    strange = [str(key) for key, item in weights.items() if item.layout != torch.strided or item.is_quantized]
    if strange:
        raise CheckpointError(
            f"{path} has sparse or quantized weights, which are not read: {listed(strange)}; save them dense"
        )
    return {str(key): item.detach() for key, item in weights.items()}


def _prepared(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without the prefixes of wrappers, and in one precision: float64 if all weights have it, otherwise float32."""
    while (wrapper := _wrapper(weights)) is not None:
        weights = {key.removeprefix(wrapper): item for key, item in weights.items()}
    kinds = {item.dtype for item in weights.values() if item.is_floating_point()}
    precision = torch.float64 if kinds == {torch.float64} else torch.float32
    return {key: item.to(precision) if item.is_floating_point() else item for key, item in weights.items()}


def _wrapper(keys: Collection[str]) -> str | None:
    """What a wrapper has put before all of these keys."""
    return next((wrapper for wrapper in _WRAPPERS if keys and all(key.startswith(wrapper) for key in keys)), None)
