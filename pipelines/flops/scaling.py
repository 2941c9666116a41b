"""How the cost of attention, or of a model, grows with the window n or the width d."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.costs.attention_cost import AttentionCost, attention_costs
from pipelines.errors import UsageError
from pipelines.flops.attention_report import cost_row

if TYPE_CHECKING:
    from pipelines.costs.model_cost import ModelCost

AXES = {"n": "window", "d": "width"}  # and the setting of a model that each is
_MOST_POINTS = 1000
_RANGE = re.compile(r"(\d+)\.\.(\d+)(?:([*+])(\d+))?")


@dataclass(frozen=True)
class Sweep:
    """Costs at each value of one size, the other held."""

    axis: str  # n or d
    values: tuple[int, ...]
    costs: tuple[tuple[AttentionCost, ...], ...]  # for each value: regular, retroactive, single-output

    def to_dict(self) -> dict[str, Any]:
        """The sweep as plain values. These keys are stable."""
        return {"sweep": self.axis, "values": list(self.values), "rows": self.rows(False)}

    def rows(self, detail: bool) -> list[dict[str, Any]]:
        """Flat rows: three for each value."""
        return [cost_row(cost) for costs in self.costs for cost in costs]


@dataclass(frozen=True)
class ModelSweep:
    """Costs of a model at each value of one size."""

    model: str
    axis: str  # n or d
    values: tuple[int, ...]
    costs: tuple[ModelCost, ...]

    def to_dict(self) -> dict[str, Any]:
        """The sweep as plain values. These keys are stable."""
        return {"model": self.model, "sweep": self.axis, "values": list(self.values), "rows": self.rows(False)}

    def rows(self, detail: bool) -> list[dict[str, Any]]:
        """Flat rows: one for each value."""
        return [
            {
                self.axis: value,
                "step_macs": cost.step.macs,
                "step_flops": cost.step.flops,
                "window_macs": cost.window.macs,
                "window_flops": cost.window.flops,
                "reduction": cost.reduction,
                "params": cost.parameters,
                "state_bytes": cost.state_bytes,
            }
            for value, cost in zip(self.values, self.costs, strict=True)
        ]


def sweep(axis: str, values: tuple[int, ...], n: int, d: int, heads: int = 1) -> Sweep:
    """Vary n or d over `values`; the other of `n` and `d` is held."""
    check_axis(axis)
    sizes = [(value, d) if axis == "n" else (n, value) for value in values]
    return Sweep(axis, values, tuple(attention_costs(*size, heads) for size in sizes))


def sweep_model(name: str, axis: str, values: tuple[int, ...], sizes: Mapping[str, Any]) -> ModelSweep:
    """Vary the window or the width of a preset; `sizes` overrides its other settings."""
    from pipelines.costs.model_cost import model_cost
    from pipelines.model.presets import preset

    check_axis(axis)
    configs = [preset(name, **{**sizes, AXES[axis]: value}) for value in values]
    return ModelSweep(name, axis, values, tuple(model_cost(config) for config in configs))


def check_axis(axis: str) -> None:
    """Refuse what cannot be swept."""
    if axis not in AXES:
        raise UsageError(f"--sweep goes over n or d, not over '{axis}': write --sweep n 16..4096")


def parse_values(text: str) -> tuple[int, ...]:
    """The values of a range, both ends included.

    16..4096 doubles, 16..4096*4 takes four times as much, 100..1000+100 goes in steps of 100; 16,64,256 is a list.
    """
    match = _RANGE.fullmatch(text.replace(" ", ""))
    if match is None:
        parts = text.replace(" ", "").split(",")
        if not all(part.isdigit() for part in parts):
            raise UsageError(f"'{text}' is no range: write 16..4096, 16..4096*4, 100..1000+100 or 16,64,256")
        values = sorted({int(part) for part in parts})
    else:
        values = _range(int(match[1]), int(match[2]), match[3] or "*", int(match[4] or 2), text)
    if min(values) < 1:
        raise UsageError(f"the range '{text}' must start at 1 or more")
    return tuple(values)


def _range(first: int, last: int, operator: str, size: int, text: str) -> list[int]:
    if last < first:
        raise UsageError(f"the range '{text}' ends before it starts")
    if first < 1:
        raise UsageError(f"the range '{text}' must start at 1 or more")
    if size < 1 or (operator == "*" and size < 2):
        raise UsageError(f"the range '{text}' does not move on: a step is at least 1, a factor at least 2")
    values = [first]
    while values[-1] < last:
        values.append(min(values[-1] + size if operator == "+" else values[-1] * size, last))
        if len(values) > _MOST_POINTS:
            raise UsageError(f"the range '{text}' has more than {_MOST_POINTS} values")
    return values
