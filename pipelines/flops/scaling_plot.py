"""The paper's figure of scaling: FLOPs and memory of the three attentions, over n and over d."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.costs.attention_cost import KINDS, AttentionCost, Kind
from pipelines.files import atomic_write
from pipelines.flops.scaling import Sweep
from pipelines.plots import check_plot_path

# The paper's colours and lines: solid, dashed, dotted.
_STYLES: dict[Kind, dict[str, Any]] = {
    "regular": {"label": "Regular", "color": "#c2185b", "linestyle": "-"},
    "retroactive": {"label": "Continual Retroactive", "color": "#1f5fbf", "linestyle": "--"},
    "single_output": {"label": "Continual Single-Output", "color": "#7e57c2", "linestyle": ":"},
}
_AXES = {"n": "sequence length n", "d": "embedding dimension d"}
_WIDTH, _HEIGHT = 8.0, 6.2  # inches
_DOTS_PER_INCH = 150


def plot_scaling(path: Path, over_n: Sweep, over_d: Sweep) -> None:
    """Draw FLOPs (above) and memory (below) over n (left) and over d (right) to a .png, .svg or .pdf file."""
    # The object-oriented interface: no global state, and no window system is looked for.
    from matplotlib.figure import Figure

    suffix = check_plot_path(path)
    figure = Figure(figsize=(_WIDTH, _HEIGHT))
    figure.set_layout_engine("constrained", wspace=0.06)  # so that the ends of two axes do not read as one number
    panels = figure.subplots(2, 2, sharex="col", sharey="row")
    for column, sweep in enumerate((over_n, over_d)):
        fixed = sweep.costs[0][0]
        held = f"d = {fixed.d}" if sweep.axis == "n" else f"n = {fixed.n}"
        heads = f", {fixed.heads} heads" if fixed.heads > 1 else ""
        panels[0][column].set_title(held + heads)
        _draw(panels[0][column], sweep, lambda cost: cost.operations.total)
        _draw(panels[1][column], sweep, lambda cost: cost.peak_bytes / 2**20)
        panels[1][column].set_xlabel(_AXES[sweep.axis])
    panels[0][0].set_ylabel("FLOPs per step")
    panels[1][0].set_ylabel("memory (MiB)")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(KINDS), frameon=False)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=suffix, dpi=_DOTS_PER_INCH)


def _draw(axes: Any, sweep: Sweep, value: Callable[[AttentionCost], float]) -> None:
    for index, kind in enumerate(KINDS):
        axes.plot(sweep.values, [value(costs[index]) for costs in sweep.costs], linewidth=2, **_STYLES[kind])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda number, _: f"{number:g}")
    axes.grid(True, which="major", alpha=0.3)
    axes.margins(x=0)
