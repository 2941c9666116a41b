"""The picture of a run: losses, and the validation metric over the epochs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.training.events import EpochDone

NAMES = {
    "accuracy": "accuracy (last token)",
    "accuracy_mean": "accuracy (mean of tokens)",
    "accuracy_vote": "accuracy (vote of tokens)",
    "map": "mAP",
}
# Where there is little room.
SHORT = {"accuracy_mean": "accuracy by the mean", "accuracy_vote": "accuracy by the vote", "map": "mAP"}


def draw_curves(history: Sequence[EpochDone], metric: str, path: Path) -> None:
    """Write a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    losses, scores = figure.subplots(1, 2)
    epochs = [epoch.epoch for epoch in history]
    losses.plot(epochs, [epoch.train_loss for epoch in history], marker=".", label="training")
    validated = [(epoch.epoch, epoch.scores) for epoch in history if epoch.scores is not None]
    losses.plot(
        [epoch for epoch, _ in validated], [score.loss for _, score in validated], marker=".", label="validation"
    )
    losses.set(xlabel="epoch", ylabel="loss", title="Loss")
    for name, label in NAMES.items():
        points = [(epoch, getattr(score, name)) for epoch, score in validated if getattr(score, name) is not None]
        if points:
            scores.plot(*zip(*points, strict=True), marker=".", label=label)
    best = [epoch for epoch in history if epoch.best]
    if best:
        scores.axvline(best[-1].epoch, color="grey", linestyle=":", label=f"best, by {SHORT.get(metric, metric)}")
    scores.set(xlabel="epoch", title="Validation", ylim=(0, 1))
    for axes in (losses, scores):
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    figure.savefig(path, format="png", dpi=120)
