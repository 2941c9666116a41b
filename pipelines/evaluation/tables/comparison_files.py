"""What a comparison leaves on disk: a figure, and the predictions of each model."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from pipelines.errors import UsageError
from pipelines.evaluation.comparison import Comparison
from pipelines.evaluation.scores.predictions import write_predictions
from pipelines.evaluation.scores.scoring import write_confusion
from pipelines.evaluation.tables.comparison_report import cost_points
from pipelines.plots import plot_score_against_macs, plot_timeline
from pipelines.wording import did_you_mean

PLOTS = ("auto", "confusion", "macs", "timeline")


def draw_comparison(path: Path, comparison: Comparison, kind: str, video: str | None = None) -> None:
    """Draw the confusion matrix of one model, or the score of several against their MACs (kind `auto`).

    Kind `timeline`: truth and scores of one video, by the first model; without a name, of the one with most action.
    """
    if kind not in PLOTS:
        raise UsageError(f"unknown plot '{kind}': choose from {', '.join(PLOTS)}")
    several = len(comparison.rows) > 1
    if kind == "macs" or (kind == "auto" and several):
        title = f"{comparison.dataset}, {comparison.part}: score and cost of a prediction"
        plot_score_against_macs(path, cost_points(comparison), comparison.metric, title)
        return
    if kind == "timeline":
        _draw_timeline(path, comparison, video)
        return
    if several:
        raise UsageError("a confusion matrix is of one model: give one --checkpoint, or --plot-kind macs")
    first = comparison.rows[0].first
    write_confusion(path, first.predictions, first.evaluation, first.options)


def _draw_timeline(path: Path, comparison: Comparison, video: str | None) -> None:
    row = comparison.rows[0]
    score, predictions = row.first.evaluation.detection, row.first.predictions
    if score is None or predictions.classes is None:
        raise UsageError(
            "a timeline is of labels for every frame, and this dataset has clips: draw the confusion matrix"
        )
    if row.first.hop is None:
        raise UsageError("a timeline has seconds, and nothing says how long a frame lasts: give --hop")
    columns = [predictions.classes.index(name) for name in score.classes]
    truth = predictions.positives(columns)
    if video is None:
        busy = np.bincount(predictions.video, weights=truth.any(axis=1), minlength=len(predictions.videos))
        video = predictions.videos[int(busy.argmax())]
    if video not in predictions.videos:
        raise UsageError(
            f"there is no recording '{video}' in the part {comparison.part}{did_you_mean(video, predictions.videos)}"
        )
    here = predictions.video == predictions.videos.index(video)
    plot_timeline(
        path, row.first.hop, predictions.scores[here][:, columns], truth[here], score.classes, f"{row.name}: {video}"
    )


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
