"""Measured time per step, and the arithmetic rate that it amounts to on this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from pipelines.costs.attention_cost import KINDS, Kind, attention_costs
from pipelines.costs.executed import random_tokens, warmed_up
from pipelines.costs.model_cost import ModelCost
from pipelines.model.attention import retroactive
from pipelines.model.attention.banded import attend, attend_one
from pipelines.model.attention.ring import LockstepCursor
from pipelines.model.continual_model import ContinualModel
from pipelines.model.linear.packing import with_precision
from pipelines.model.precision import Precision
from pipelines.model.state import RetroactiveState

_SECONDS = 0.4  # spent on each measurement
_FEWEST, _MOST = 5, 2000  # calls


@dataclass(frozen=True)
class Timing:
    """Median time of one call, and what it does in that time."""

    microseconds: float
    gigaflops: float  # arithmetic operations counted / time, in 10⁹ per second


@dataclass(frozen=True)
class ModelTime:
    """A step and a window of a model with one stream on the CPU."""

    step: Timing
    window: Timing
    threads: int
    precision: Precision = "float32"  # of the weights

    @property
    def speedup(self) -> float:
        return self.window.microseconds / self.step.microseconds

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "speedup": self.speedup}


@torch.inference_mode()
def measure_model(model: ContinualModel, cost: ModelCost, precision: Precision = "float32") -> ModelTime:
    """Time steps after warm-up, and the regular model on a window."""
    model = with_precision(model, precision)
    state = warmed_up(model)
    token = random_tokens(model, 1)[:, 0]
    window = random_tokens(model, model.config.window)
    step = _timing(lambda: model.step_(token, state), cost.step.flops)
    return ModelTime(step, _timing(lambda: model(window), cost.window.flops), torch.get_num_threads(), precision)


@torch.inference_mode()
def measure_attention(n: int, d: int, heads: int = 1) -> dict[Kind, Timing]:
    """Time each kind of attention on given queries, keys and values: float32, one stream."""
    generator = torch.Generator().manual_seed(0)
    width = d // heads
    query, key, value = (torch.randn(1, heads, n, width, generator=generator) for _ in range(3))
    query = query / width**0.5
    state = retroactive.empty_state(1, heads, n, width, query)
    for position in range(n):
        _retroactive_step(state, query, key, value, position, n)
    position = n

    def step() -> None:
        nonlocal position
        _retroactive_step(state, query, key, value, position, n)
        position += 1

    calls: dict[Kind, Callable[[], object]] = {
        "regular": lambda: attend(query, key, value),
        "retroactive": step,
        "single_output": lambda: attend_one(query[:, :, -1], key, value),
    }
    totals = {cost.kind: cost.operations.total for cost in attention_costs(n, d, heads)}
    return {kind: _timing(calls[kind], totals[kind]) for kind in KINDS}


def _retroactive_step(
    state: RetroactiveState,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    position: int,
    n: int,
) -> None:
    slot = position % n
    row = (query[:, :, slot], key[:, :, slot], value[:, :, slot])
    retroactive.update_(state, *row, 1.0, LockstepCursor(position, n), 0)


def _timing(call: Callable[[], object], operations: int) -> Timing:
    call()
    seconds: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(seconds) < _FEWEST or (time.perf_counter() < end and len(seconds) < _MOST):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds)
    return Timing(1e6 * median, operations / median / 1e9)
