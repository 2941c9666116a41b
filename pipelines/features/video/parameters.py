"""Loading published weights into a network, strictly and without running anything that is in the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from pipelines.errors import CheckpointError
from pipelines.features.video.key_tables import KeyTable, choose
from pipelines.features.weights.reading import read_weight_file
from pipelines.quick_torch import seeded_generator
from pipelines.wording import listed

RANDOM_SEED = 5
COUNTER = "num_batches_tracked"  # old files lack this counter; inference does not use it


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Name -> tensor of a .safetensors file or a PyTorch file, bare or under `state_dict`."""
    loaded = read_weight_file(path)
    if isinstance(loaded, Mapping) and isinstance(loaded.get("state_dict"), Mapping):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, Mapping) or not loaded:
        raise CheckpointError(f"{path}: holds no state dict: save it with torch.save(model.state_dict(), …)")
    strange = [str(key) for key, value in loaded.items() if not isinstance(value, Tensor)]
    if strange:
        raise CheckpointError(f"{path}: these entries are not tensors: {listed(strange)}")
    return {str(key): value for key, value in loaded.items()}


def load_weights(network: nn.Module, head: str, path: Path, tables: tuple[KeyTable, ...]) -> KeyTable:
    """Fill a network from a published checkpoint; returns whose naming the file has.

    Every key must be known, every parameter given, every shape right. Two things are free: the number of classes
    of the layer `head`, and whether there is that layer at all, since features do not pass through it.
    """
    state = read_state_dict(path)
    table = choose(tables, state)
    renamed, unknown = {}, []
    wanted = network.state_dict()
    for key, value in state.items():
        name = table.rename(key)
        if name is None or (name not in wanted):
            unknown.append(key)
        else:
            renamed[name] = value
    if f"{head}.weight" in renamed and f"{head}.bias" in renamed:
        _resize_head(network, head, renamed[f"{head}.weight"])
    elif not any(name.startswith(f"{head}.") for name in renamed):
        renamed |= {name: torch.zeros(wanted[name].shape) for name in wanted if name.startswith(f"{head}.")}
    wanted = network.state_dict()
    missing = [name for name in wanted if name not in renamed and not name.endswith(COUNTER)]
    wrong = [
        f"{name} {tuple(value.shape)} instead of {tuple(wanted[name].shape)}"
        for name, value in renamed.items()
        if value.shape != wanted[name].shape
    ]
    problems = [
        f"{what}: {listed(keys)}"
        for what, keys in (("unknown", unknown), ("missing", missing), ("wrong shape", wrong))
        if keys
    ]
    if problems:
        raise CheckpointError(f"{path}: does not fit {type(network).__name__}; {'; '.join(problems)}")
    for name, value in wanted.items():
        tensor = renamed.get(name, torch.zeros(value.shape, dtype=value.dtype))
        renamed[name] = tensor.to(value.dtype)
    network.load_state_dict(renamed, strict=True, assign=True)
    return table


def fill_randomly(network: nn.Module) -> None:
    """The same random numbers on every machine, scaled so that activations keep their size."""
    generator = seeded_generator(RANDOM_SEED)
    state = {}
    for name, value in network.state_dict().items():
        if value.ndim > 1:  # convolutions and linear layers: variance 2 / inputs
            deviation = (2.0 / value[0].numel()) ** 0.5
            state[name] = torch.randn(value.shape, generator=generator) * deviation
        elif name.endswith("bn3.weight"):  # ResNet's sixteen sums would double the variance each
            state[name] = torch.full(value.shape, 0.3)
        elif name.endswith(("weight", "running_var")):
            state[name] = torch.ones(value.shape)
        else:
            state[name] = torch.zeros(value.shape, dtype=value.dtype)
    network.load_state_dict(state, strict=True, assign=True)


def _resize_head(network: nn.Module, head: str, weight: Tensor) -> None:
    layer = network.get_submodule(head)
    assert isinstance(layer, nn.Linear)
    if weight.ndim == 2:
        parent, _, name = head.rpartition(".")
        with torch.device("meta"):
            replacement = nn.Linear(layer.in_features, weight.shape[0])
        network.get_submodule(parent).register_module(name, replacement)
