"""The work of a model without memory: that of one token, for a step and for a window of one alike."""

from __future__ import annotations

from pipelines.costs.block_work import Modules, add, embed
from pipelines.costs.work import linear
from pipelines.model.per_frame_config import PerFrameConfig


def step_work(config: PerFrameConfig) -> Modules:
    """Work by module."""
    modules: Modules = {}
    if config.embedding is not None:
        embed(modules, config.input_width, config.embedding, 1)
    add(modules, "classifier", linear(1, config.embedding or config.input_width, config.classes))
    return modules


window_work = step_work


def module_order(config: PerFrameConfig) -> list[str]:
    return ["embedding", "classifier"]


def module_name(key: str) -> str:
    return key.partition(".")[0]
