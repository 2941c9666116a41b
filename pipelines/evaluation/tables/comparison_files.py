"""What a comparison leaves on disk: a figure, and the predictions of each model."""

from __future__ import annotations

import re
from pathlib import Path

from pipelines.errors import UsageError
from pipelines.evaluation.comparison import Comparison
from pipelines.evaluation.scores.predictions import write_predictions
from pipelines.evaluation.scores.scoring import write_confusion
from pipelines.evaluation.tables.comparison_report import cost_points
from pipelines.plots import plot_score_against_macs

PLOTS = ("auto", "confusion", "macs")


def draw_comparison(path: Path, comparison: Comparison, kind: str) -> None:
    """Draw the confusion matrix of one model, or the score of several against their MACs (kind `auto`)."""
    if kind not in PLOTS:
        raise UsageError(f"unknown plot '{kind}': choose from {', '.join(PLOTS)}")
    several = len(comparison.rows) > 1
    if kind == "macs" or (kind == "auto" and several):
        title = f"{comparison.dataset}, {comparison.part}: score and cost of a prediction"
        plot_score_against_macs(path, cost_points(comparison), comparison.metric, title)
        return
    if several:
        raise UsageError("a confusion matrix is of one model: give one --checkpoint, or --plot-kind macs")
    first = comparison.rows[0].first
    write_confusion(path, first.predictions, first.evaluation, first.options)


def check_save_path(path: Path) -> None:
    """Refuse a name that `--predictions` would not read; before the work, not after it."""
    if path.suffix != ".npz":
        raise UsageError(f"cannot save predictions to {path}: choose a name that ends in .npz")


def save_predictions(path: Path, comparison: Comparison) -> list[Path]:
    """Write the predictions of each model; with several, the name of model and seed stands before .npz."""
    check_save_path(path)
    files = sum(len(row.files) for row in comparison.rows)
    written = []
    for row in comparison.rows:
        for file, result in zip(row.files, row.results, strict=True):
            seed = f".{file.parent.name}" if len(row.files) > 1 else ""
            name = re.sub(r"[^\w.+-]+", "-", row.name)
            target = path if files == 1 else path.with_name(f"{path.stem}.{name}{seed}.npz")
            write_predictions(target, result.predictions)
            written.append(target)
    return written
