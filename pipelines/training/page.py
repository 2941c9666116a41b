"""report.html of a run: its curves and epochs, written anew after every epoch while it trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.files import write_text
from pipelines.pages.page import CHART_SCRIPTS, CHART_STYLES, COMMON_SCRIPTS, COMMON_STYLES, Page, made_line, render
from pipelines.training.curves import SHORT
from pipelines.training.events import EpochDone
from pipelines.wording import counted

RunState = Literal["running", "finished", "stopped"]
REFRESH = 5  # seconds after which a browser looks again, while the run goes on


@dataclass(frozen=True)
class RunProgress:
    """What the page tells of a run."""

    name: str
    history: Sequence[EpochDone]
    metric: str  # that `best` is chosen by
    epochs: int  # planned
    state: RunState


def run_page(progress: RunProgress) -> str:
    """The HTML."""
    data = {
        "name": progress.name,
        "state": progress.state,
        "said": _said(progress),
        "planned": progress.epochs,
        "metric": SHORT.get(progress.metric, progress.metric),
        "epochs": [_finite(epoch.row()) for epoch in progress.history],
        "figures": _figures(progress),
        "made": made_line(),
    }
    scripts, styles = (*COMMON_SCRIPTS, *CHART_SCRIPTS, "training.js"), (*COMMON_STYLES, *CHART_STYLES)
    refresh = REFRESH if progress.state == "running" else None
    return render(Page(f"{progress.name} – cotrans train", scripts, styles, data, refresh=refresh))


def write_run_page(path: Path, progress: RunProgress) -> None:
    write_text(path, run_page(progress))


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Without NaN and infinity, which JSON does not know: a metric may have nothing to count."""
    return {name: value if value is None or math.isfinite(value) else None for name, value in row.items()}


def _said(progress: RunProgress) -> str:
    done = len(progress.history)
    if progress.state == "running":
        return f"training: {done} of {progress.epochs} epochs are done; this page looks again every {REFRESH} seconds"
    if progress.state == "stopped":
        return f"stopped after {done} of {progress.epochs} epochs: --resume goes on"
    return f"finished after {counted(done, 'epoch')}"


def _figures(progress: RunProgress) -> list[tuple[str, str, str]]:
    last = progress.history[-1]
    best = next((epoch for epoch in reversed(progress.history) if epoch.best), None)
    seconds = sum(epoch.seconds for epoch in progress.history)
    figures = [
        ("Epochs", f"{len(progress.history)} of {progress.epochs}", counted(last.steps, "step")),
        ("Training loss", f"{last.train_loss:.3g}", f"in epoch {last.epoch}"),
    ]
    if best is not None and best.scores is not None:
        value = best.scores.loss if progress.metric == "loss" else best.scores.value(progress.metric)
        text = f"{value:.3g}" if progress.metric == "loss" else f"{100 * value:.1f} %"
        figures.append((f"Best {SHORT.get(progress.metric, progress.metric)}", text, f"in epoch {best.epoch}"))
    figures.append(("Time", f"{seconds:,.0f} s", f"{last.frames_per_second:,.0f} labels a second"))
    return figures
