"""How the cost of attention grows with the window n or the width d."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pipelines.errors import UsageError
from pipelines.reports.attention_cost import AttentionCost, attention_costs

Axis = Literal["n", "d"]
_MOST_POINTS = 1000
_RANGE = re.compile(r"(\d+)\.\.(\d+)(?:([*+])(\d+))?")


@dataclass(frozen=True)
class Sweep:
    """Costs at each value of one size, the other held."""

    axis: Axis
    values: tuple[int, ...]
    costs: tuple[tuple[AttentionCost, ...], ...]  # for each value: regular, retroactive, single-output


def sweep(axis: str, values: tuple[int, ...], n: int, d: int, heads: int = 1) -> Sweep:
    """Vary n or d over `values`; the other of `n` and `d` is held."""
    if axis == "n":
        return Sweep("n", values, tuple(attention_costs(value, d, heads) for value in values))
    if axis == "d":
        return Sweep("d", values, tuple(attention_costs(n, value, heads) for value in values))
    raise UsageError(f"--sweep goes over n or d, not over '{axis}'")


def parse_values(text: str) -> tuple[int, ...]:
    """The values of a range, both ends included.

    16..4096 doubles, 16..4096*4 takes four times as much, 100..1000+100 goes in steps of 100; 16,64,256 is a list.
    """
    match = _RANGE.fullmatch(text.replace(" ", ""))
    if match is None:
        parts = text.replace(" ", "").split(",")
        if not all(part.isdigit() for part in parts):
            raise UsageError(f"'{text}' is no range: write 16..4096, 16..4096*4, 100..1000+100 or 16,64,256")
        values = [int(part) for part in parts]
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
