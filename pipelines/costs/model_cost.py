"""What a model costs, module by module: for one step of a stream, and for the regular model on a whole window.

The step is one in the steady state (the window is full) of one stream. The counts are analytic and exact; that they
are what runs is checked with `executed.py`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import torch

from pipelines.costs.step_work import step_work
from pipelines.costs.window_work import window_work
from pipelines.costs.work import Work
from pipelines.model.config import ModelConfig
from pipelines.model.transformer import ContinualTransformer


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

    config: ModelConfig
    modules: tuple[ModuleCost, ...]
    state_bytes: int  # what one stream remembers
    constant_bytes: int  # tables of a folded first block, shared by all streams

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


def model_cost(config: ModelConfig) -> ModelCost:
    """Count a model of this configuration, without its weights."""
    with torch.device("meta"):
        model = ContinualTransformer(config)
        state = model.initial_state()
    parameters = _parameters(model)
    step, window = step_work(config), window_work(config)
    names = list(dict.fromkeys([*_order(config), *step, *window, *parameters]))
    modules = tuple(
        ModuleCost(name, parameters.get(name, 0), step.get(name, Work()), window.get(name, Work()))
        for name in names
        if name in parameters or name in step or name in window
    )
    tables = 0 if state.tables is None else sum(table.nbytes for table in state.tables)
    return ModelCost(config, modules, state.nbytes, tables)


def _order(config: ModelConfig) -> list[str]:
    """Names in the order in which a token meets the modules."""
    names = ["embedding", "input projection", "positions", "class token"]
    for index in range(1, config.blocks + 1):
        names += [f"block {index} {part}" for part in ("in-projection", "attention", "out-projection")]
        names += [f"block {index} feed-forward", f"block {index} norms"]
    return [*names, "final norm", "decoder queries"]


# How the parameters of a module are named in reports.
_BLOCK_PARTS = {
    "in_projection": "in-projection",
    "out_projection": "out-projection",
    "expand": "feed-forward",
    "contract": "feed-forward",
    "attention_norm": "norms",
    "feed_forward_norm": "norms",
}
_DECODER_PARTS = {
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "expand": "feed-forward",
    "contract": "feed-forward",
    "self_norm": "norms",
    "cross_norm": "norms",
    "feed_forward_norm": "norms",
}
_TOP = {
    "embedding": "embedding",
    "input_projection": "input projection",
    "encoder.positions": "positions",
    "encoder.class_token": "class token",
    "final_norm": "final norm",
    "decoder.queries": "decoder queries",
    "decoder.norm": "decoder norm",
    "decoder.classifier": "decoder classifier",
    "classifier": "classifier",
}


def _parameters(model: ContinualTransformer) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for key, tensor in model.named_parameters():
        found[_module_name(key)] += tensor.numel()
    return dict(found)


def _module_name(key: str) -> str:
    """ "encoder.blocks.0.expand.weight" to "block 1 feed-forward"."""
    parts = key.split(".")
    if key.startswith("encoder.blocks."):
        if parts[3] == "age_bias":
            return "positions"
        return f"block {int(parts[2]) + 1} {_BLOCK_PARTS[parts[3]]}"
    if key.startswith("decoder.blocks."):
        return f"decoder block {int(parts[2]) + 1} {_DECODER_PARTS[parts[3]]}"
    return next(name for prefix, name in _TOP.items() if key == prefix or key.startswith(f"{prefix}."))
