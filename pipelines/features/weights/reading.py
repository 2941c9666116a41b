"""What a file of weights holds: .safetensors, .npz or PyTorch's own. No code in a file is ever run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from pipelines.errors import CheckpointError, InputError
from pipelines.untrusted.npz_file import read_npz
from pipelines.untrusted.parsing import parsing
from pipelines.untrusted.torch_file import read_torch_file


def read_weight_file(path: Path, arrays: bool = False) -> Any:
    """The value in a weight file; what cannot be read safely is one line. arrays: numpy's are weights too."""
    if not path.is_file():
        raise InputError(f"{path}: no such weight file")
    refuse = partial(_unreadable, path)
    if path.suffix == ".npz":
        return read_npz(path, refuse)
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        with parsing(refuse):
            return load_file(path)
    return read_torch_file(path, arrays)


def _unreadable(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path}: not a readable weight file ({reason})")
