"""What a model costs, module by module: for one step of a stream, and for the regular model on a whole window.

The step is one in the steady state (the window is full) of one stream. The counts are analytic and exact; that they
are what runs is checked with `executed.py`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch

from pipelines.costs.kinds import COUNTS
from pipelines.costs.work import Work
from pipelines.model.base_config import BaseConfig
from pipelines.model.kinds import make_model
from pipelines.model.state import flat_tensors


@dataclass(frozen=True)
class ModuleCost:
    """One module of a model."""

    name: str  # "block 1 attention"
    parameters: int
    step: Work
    window: Work


@dataclass(frozen=True)
class ModelCost:
    """A whole model."""

    config: BaseConfig
    modules: tuple[ModuleCost, ...]
    state_bytes: int  # what one stream remembers
    constant_bytes: int  # tables computed from the weights, shared by all streams

    @property
    def parameters(self) -> int:
        return sum(module.parameters for module in self.modules)

    @property
    def step(self) -> Work:
        return sum((module.step for module in self.modules), Work())

    @property
    def window(self) -> Work:
        return sum((module.window for module in self.modules), Work())

    @property
    def reduction(self) -> float:
        """MACs of the regular model on the window / MACs of one step."""
        return self.window.macs / self.step.macs


def model_cost(config: BaseConfig) -> ModelCost:
    """Count a model of this configuration, without its weights."""
    with torch.device("meta"):
        model = make_model(config)
        state = model.initial_state()
    counts = COUNTS[config.kind]
    parameters: dict[str, int] = defaultdict(int)
    for key, tensor in model.named_parameters():
        parameters[counts.module_name(key)] += tensor.numel()
    step, window = counts.step(config), counts.window(config)
    names = list(dict.fromkeys([*counts.module_order(config), *step, *window, *parameters]))
    modules = tuple(
        ModuleCost(name, parameters.get(name, 0), step.get(name, Work()), window.get(name, Work()))
        for name in names
        if name in parameters or name in step or name in window
    )
    tables = sum(tensor.nbytes for tensor in flat_tensors(state.tables))
    return ModelCost(config, modules, state.nbytes, tables)
