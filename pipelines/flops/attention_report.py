"""Everything that `cotrans flops --n N --d D` says, in one value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipelines.costs.attention_cost import AttentionCost, Kind, attention_costs

if TYPE_CHECKING:
    from pipelines.flops.measuring import Timing


@dataclass(frozen=True)
class AttentionReport:
    """The three attentions at one size."""

    costs: tuple[AttentionCost, ...]
    times: dict[Kind, Timing] | None

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values. These keys are stable."""
        first = self.costs[0]
        return {
            "n": first.n,
            "d": first.d,
            "heads": first.heads,
            "attention": {
                cost.kind: {
                    **{key: value for key, value in cost_row(cost).items() if key not in ("kind", "n", "d", "heads")},
                    "equations": [
                        {"equation": row.name, "formula": row.formula, **asdict(row.operations)}
                        for row in cost.equations
                    ],
                    "time": None if self.times is None else asdict(self.times[cost.kind]),
                }
                for cost in self.costs
            },
        }

    def rows(self, detail: bool) -> list[dict[str, Any]]:
        """Flat rows: one for each kind, or, in detail, one for each equation."""
        if detail:
            return [
                {
                    "kind": cost.kind,
                    "equation": row.name,
                    "formula": row.formula,
                    **asdict(row.operations),
                    "total": row.operations.total,
                }
                for cost in self.costs
                for row in cost.equations
            ]
        times = self.times or {}
        return [cost_row(cost) | (asdict(times[cost.kind]) if cost.kind in times else {}) for cost in self.costs]


def cost_row(cost: AttentionCost) -> dict[str, Any]:
    """One kind of attention at one size as a flat row."""
    return {
        "kind": cost.kind,
        "n": cost.n,
        "d": cost.d,
        "heads": cost.heads,
        **asdict(cost.operations),
        "total": cost.operations.total,
        "reduction": cost.reduction,
        "state_numbers": cost.state_numbers,
        "state_bytes": cost.state_bytes,
        "peak_numbers": cost.peak_numbers,
        "peak_bytes": cost.peak_bytes,
    }


def report_attention(n: int, d: int, heads: int = 1, measure: bool = False) -> AttentionReport:
    """Count the three attentions and, on demand, time them."""
    costs = attention_costs(n, d, heads)
    if not measure:
        return AttentionReport(costs, None)
    from pipelines.flops.measuring import measure_attention  # loads torch, which counting does without

    return AttentionReport(costs, measure_attention(n, d, heads))
