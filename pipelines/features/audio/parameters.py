"""Loading the parameters of audio networks: no code in a file is ever run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.errors import CheckpointError, MissingDependencyError
from pipelines.features.weights.reading import read_weight_file
from pipelines.quick_torch import seeded_generator

RANDOM_SEED = 0
RANDOM_DEVIATION = 0.05


def read_state(path: Path, what: str) -> dict[str, Tensor]:
    """Name to tensor of a .safetensors, .npz or PyTorch file. `what` names the weights in error messages."""
    if not path.is_file():
        raise MissingDependencyError(
            f"the weights of {what} are not at {path}: `cotrans weights list` shows where to get them"
        )
    state = read_weight_file(path, arrays=True)
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor | np.ndarray) for v in state.values()):
        raise CheckpointError(f"{path} does not hold named tensors: it is not a weight file for {what}")
    return {str(name): torch.as_tensor(value) for name, value in state.items()}


def load_strictly(network: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Give `network` the parameters in `state`; every name and every shape must fit."""
    wanted = network.state_dict()
    problems = [f"{name} is missing" for name in wanted if name not in state]
    problems += [f"{name} is not part of the network" for name in state if name not in wanted]
    problems += [
        f"{name} has shape {tuple(state[name].shape)} instead of {tuple(value.shape)}"
        for name, value in wanted.items()
        if name in state and state[name].shape != value.shape
    ]
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        raise CheckpointError(f"the weights in {where} do not fit: {problems[0]}{more}")
    network.load_state_dict({name: value.to(wanted[name].dtype) for name, value in state.items()}, assign=True)


def randomise(network: nn.Module) -> None:
    """The same arbitrary parameters on every machine, for tests of everything but the quality."""
    generator = seeded_generator(RANDOM_SEED)
    state = {}
    for name, value in network.state_dict().items():
        if name.endswith("running_var"):
            state[name] = torch.ones(value.shape)
        elif name.endswith(("running_mean", "num_batches_tracked")):
            state[name] = torch.zeros(value.shape, dtype=value.dtype)
        else:
            state[name] = torch.randn(value.shape, generator=generator) * RANDOM_DEVIATION
    network.load_state_dict(state, assign=True)
