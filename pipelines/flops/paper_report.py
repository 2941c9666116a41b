"""The paper's tables against ours: every published row, counted anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.costs.model_cost import ModelCost, model_cost
from pipelines.costs.work import Work
from pipelines.flops.deviations import reasons
from pipelines.flops.published import PUBLISHED, Published
from pipelines.model.presets import get_preset


@dataclass(frozen=True)
class PaperRow:
    """A published row and what it should have said."""

    published: Published
    cost: ModelCost

    @property
    def work(self) -> Work:
        """The work of one prediction in the way that the paper runs this model."""
        return self.cost.step if get_preset(self.published.name).run == "continual" else self.cost.window

    @property
    def reasons(self) -> tuple[str, ...]:
        return reasons(self.published, self.work.paper_rule)


@dataclass(frozen=True)
class PaperReport:
    """All rows, in the paper's order."""

    paper_rows: tuple[PaperRow, ...]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values. These keys are stable."""
        return {"rows": [{**_flat(row), "reasons": list(row.reasons)} for row in self.paper_rows]}

    def rows(self, detail: bool) -> list[dict[str, Any]]:
        """Flat rows; in detail with their reasons."""
        return [_flat(row) | ({"reasons": "; ".join(row.reasons)} if detail else {}) for row in self.paper_rows]


def markdown(report: PaperReport) -> str:
    """The table of docs/paper-tables.md, and a list of reasons for each model."""
    lines = [
        "| model | setting | published (M) | paper_rule | counted | off | params published | params |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in report.paper_rows:
        published, rule = row.published, row.work.paper_rule
        printed = "–" if published.parameters is None else f"{published.parameters:,}"
        cells = [published.name, published.label, f"{published.millions}", f"{rule:,}", f"{row.work.macs:,}"]
        cells += [f"{100 * (published.macs / rule - 1):+.1f} %", printed, f"{row.cost.parameters:,}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    grouped: dict[tuple[str, ...], list[str]] = {}
    for row in report.paper_rows:
        if row.reasons:
            grouped.setdefault(row.reasons, []).append(f"{row.published.name}, {row.published.label}")
    for causes, names in grouped.items():
        lines.append(f"- {'; '.join(names)}:")
        lines += [f"  - {reason}" for reason in causes]
    return "\n".join(lines)


def report_paper() -> PaperReport:
    """Count every model that the paper has numbers for."""
    return PaperReport(tuple(PaperRow(row, model_cost(row.config())) for row in PUBLISHED))


def _flat(row: PaperRow) -> dict[str, Any]:
    published, work = row.published, row.work
    return {
        "model": published.name,
        "setting": published.label,
        "run": get_preset(published.name).run,
        "published": published.macs,
        "published_exact": published.macs_exact,
        "paper_rule": work.paper_rule,
        "counted": work.macs,
        "params_published": published.parameters,
        "params": row.cost.parameters,
        "step_macs": row.cost.step.macs,
        "window_macs": row.cost.window.macs,
        "reduction": row.cost.reduction,
    }
