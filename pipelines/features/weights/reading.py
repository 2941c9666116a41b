"""What a file of weights holds: .safetensors, .npz or PyTorch's own. No code in a file is ever run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from safetensors import SafetensorError

from pipelines.errors import CheckpointError, InputError

# What torch, numpy and safetensors raise for damaged files.
_UNREADABLE = (
    *(OSError, EOFError, RuntimeError, ValueError, KeyError, IndexError, TypeError, AttributeError),
    *(UnpicklingError, BadZipFile, SafetensorError),
)


def read_weight_file(path: Path, allowed: Sequence[Any] = ()) -> Any:
    """The value in a weight file; what cannot be read safely is one line. allowed: more that a pickle may name."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        with torch.serialization.safe_globals(list(allowed)):
            return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such weight file") from error
    except UnpicklingError as error:
        raise CheckpointError(
            f"{path}: not a readable weight file: it is damaged, or holds more than tensors and cannot be loaded "
            "safely; save its state_dict alone"
        ) from error
    except _UNREADABLE as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{path}: not a readable weight file ({reason})") from error
