"""Everything that `cotrans flops` says about a model, in one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.checkpoints.foreign_files.imported import Hints
from pipelines.checkpoints.opening import open_checkpoint
from pipelines.costs.executed import Executed, build_model, execute
from pipelines.costs.model_cost import ModelCost, model_cost
from pipelines.costs.work import Work
from pipelines.flops.deviations import reasons
from pipelines.flops.measuring import ModelTime, measure_model
from pipelines.flops.published import Published, find_published
from pipelines.model.base_config import BaseConfig
from pipelines.model.precision import Precision
from pipelines.model.presets import Run, get_preset
from pipelines.model.transformer.config import ModelConfig


@dataclass(frozen=True)
class ModelReport:
    """Analytic counts, what ran, what the paper printed, and, on demand, how long it took."""

    name: str  # of the preset or the file
    run: Run  # what one prediction is: a step, or, for a regular model, a whole window
    cost: ModelCost
    executed: Executed
    published: Published | None
    time: ModelTime | None

    @property
    def work(self) -> Work:
        """The work of one prediction."""
        return self.cost.step if self.run == "continual" else self.cost.window

    @property
    def executed_macs(self) -> int:
        return self.executed.step.total if self.run == "continual" else self.executed.window.total

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the published number is another one, where it is more than 0.5 % off."""
        return () if self.published is None else reasons(self.published, self.work.paper_rule)

    @property
    def headline(self) -> str:
        """The model and its sizes, in the paper's letters where they apply."""
        config = self.cost.config
        if not isinstance(config, ModelConfig):
            return f"{self.name}: {config.sizes()}"
        blocks = f"{config.blocks} block{'s' * (config.blocks > 1)}"
        return (
            f"{self.name}: n = {config.window}, d = {config.width}, {config.heads} heads, {blocks}, "
            f"input {config.input_width}, {config.classes} classes"
        )

    def rows(self, detail: bool) -> list[dict[str, Any]]:
        """Flat rows: one for each module, and the total."""
        return [*module_rows(self.cost), total_row(self.cost)]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values. These keys are stable."""
        cost, published = self.cost, self.published
        return {
            "model": self.name,
            "run": self.run,
            "macs": {
                "published": None if published is None else published.macs,
                "published_exact": None if published is None else published.macs_exact,
                "paper_rule": self.work.paper_rule,
                "counted": self.work.macs,
                "executed": self.executed_macs,
            },
            "reasons": list(self.reasons),
            "flops": self.work.flops,
            "params": cost.parameters,
            "params_published": None if published is None else published.parameters,
            "state_bytes": cost.state_bytes,
            "constant_bytes": cost.constant_bytes,
            "step_macs": cost.step.macs,
            "step_flops": cost.step.flops,
            "step_executed": self.executed.step.total,
            "window_macs": cost.window.macs,
            "window_flops": cost.window.flops,
            "window_executed": self.executed.window.total,
            "reduction": cost.reduction,
            "modules": module_rows(cost),
            "time": None if self.time is None else self.time.to_dict(),
            "config": cost.config.to_dict(),
        }


def module_rows(cost: ModelCost) -> list[dict[str, Any]]:
    """One flat row for each module."""
    return [_row(module.name, module.parameters, module.step, module.window) for module in cost.modules]


def total_row(cost: ModelCost) -> dict[str, Any]:
    """The whole model as one more row."""
    return _row("total", cost.parameters, cost.step, cost.window)


def _row(name: str, parameters: int, step: Work, window: Work) -> dict[str, Any]:
    return {
        "module": name,
        "params": parameters,
        "step_macs": step.macs,
        "step_paper_rule": step.paper_rule,
        "step_flops": step.flops,
        "window_macs": window.macs,
        "window_paper_rule": window.paper_rule,
        "window_flops": window.flops,
    }


def report_preset(
    name: str, config: BaseConfig, measure: bool = False, precision: Precision = "float32"
) -> ModelReport:
    """Report on a preset with these settings and random weights."""
    cost, model = model_cost(config), build_model(config)
    time = measure_model(model, cost, precision) if measure else None
    return ModelReport(name, get_preset(name).run, cost, execute(model), find_published(name, config), time)


def report_checkpoint(path: Path, hints: Hints, measure: bool = False, precision: Precision = "float32") -> ModelReport:
    """Report on the model of a file, ours or another project's. hints: what the file does not say."""
    model = open_checkpoint(path, hints).model
    cost = model_cost(model.config)
    time = measure_model(model, cost, precision) if measure else None
    return ModelReport(path.name, "continual", cost, execute(model), None, time)
