"""Figures: the confusion matrix, score against cost (figure 2 of the paper), and the timeline of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError, UsageError
from pipelines.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")
_DOTS_PER_INCH = 150
_MOST_LINES = 6  # classes in a timeline
_MOST_ANNOTATED = 25  # classes; beyond, numbers in the cells are too small to read


@dataclass(frozen=True)
class CostPoint:
    """One model in the plot of score against cost."""

    name: str
    macs: float  # multiply-accumulates per prediction
    score: float  # a fraction
    deviation: float = 0.0  # over runs
    family: str = ""  # models of one family share a colour


def check_plot_path(path: Path) -> str:
    """The format that a file name asks for; checked before the work, not after it."""
    suffix = path.suffix.lower().lstrip(".")
    if suffix not in FORMATS:
        raise UsageError(f"cannot draw to {path}: choose a name that ends in .{', .'.join(FORMATS)}")
    return suffix


def plot_confusion(path: Path, counts: NDArray[np.integer[Any]], classes: Sequence[str], title: str) -> None:
    """Draw a confusion matrix.

    counts: (true classes, predicted classes); colour is the share of the true class.
    """
    total = counts.sum(axis=1, keepdims=True)
    share = counts / np.maximum(total, 1)
    size = max(4.5, 0.42 * len(classes) + 2.5)
    figure = _figure(size + 1.0, size)
    axes = figure.add_subplot()
    image = axes.imshow(share, vmin=0, vmax=1, cmap="Blues")
    axes.set_xticks(range(len(classes)), classes, rotation=90 if len(classes) > 12 else 45, ha="center")
    if len(classes) <= 12:
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    axes.set_yticks(range(len(classes)), classes)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.set_title(title)
    if len(classes) <= _MOST_ANNOTATED:
        for row, column in zip(*np.nonzero(counts), strict=True):
            value = share[row, column]
            text = f"{100 * value:.0f}"
            if text != "0":
                colour = "white" if value > 0.55 else "black"
                axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=7)
    bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
    bar.set_label("share of the true class")
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    _save(figure, path)


def plot_score_against_macs(path: Path, points: Sequence[CostPoint], metric: str, title: str) -> None:
    """Draw score over MACs per prediction, on a logarithmic axis of cost.

    Points of one name are the same model at different costs; a dotted line joins them.
    """
    if not points:
        raise InputError("there is no model to draw")
    if any(not point.macs > 0 for point in points):
        raise InputError("a model without a count of MACs cannot be drawn on a logarithmic axis")
    figure = _figure(6.5, 4.5)
    axes = figure.add_subplot()
    families = list(dict.fromkeys(point.family for point in points))
    for number, family in enumerate(families):
        members = sorted((point for point in points if point.family == family), key=lambda point: point.macs)
        axes.errorbar(
            [point.macs for point in members],
            [100 * point.score for point in members],
            yerr=[100 * point.deviation for point in members] if any(p.deviation for p in members) else None,
            marker="o",
            linestyle="none",
            capsize=3,
            color=f"C{number}",
            label=family or None,
        )
        for point in members:
            axes.annotate(
                point.name,
                (point.macs, 100 * point.score),
                xytext=(7, -11),
                textcoords="offset points",
                fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8},
            )
    for name in dict.fromkeys(point.name for point in points):
        same = [point for point in points if point.name == name]
        if len(same) > 1:
            axes.plot(
                [point.macs for point in same],
                [100 * point.score for point in same],
                linestyle=":",
                linewidth=1,
                color="grey",
                zorder=0,
            )
    axes.set_xscale("log")
    axes.set_xlabel("MACs per prediction")
    axes.set_ylabel(f"{metric} (%)")
    axes.set_title(title)
    axes.margins(x=0.18, y=0.15)
    axes.grid(True, which="major", alpha=0.3)
    if any(families):
        axes.legend()
    _save(figure, path)


def plot_timeline(
    path: Path,
    hop: float,
    scores: NDArray[np.floating[Any]],
    truth: NDArray[np.bool_],
    classes: Sequence[str],
    title: str,
) -> None:
    """Draw scores and truth of one recording over time, a strip for each class that happens or is named.

    scores, truth: (frames, classes); hop: seconds from frame to frame.
    """
    # What happens comes first, then what is taken for it with the most conviction.
    weight = truth.any(axis=0) * 2.0 + scores.max(axis=0)
    first = np.argsort(-weight, kind="stable")[:_MOST_LINES].tolist()
    shown = [column for column in first if truth[:, column].any() or scores[:, column].max() >= 0.5] or first[:1]
    # Steps go from edge to edge of the frames, so that the last one is as wide as the others.
    seconds = np.arange(len(scores) + 1) * hop
    truth, scores = np.append(truth, truth[-1:], axis=0), np.append(scores, scores[-1:], axis=0)
    figure = _figure(9.0, 1.0 + 1.1 * len(shown))
    strips = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, column in zip(strips, shown, strict=True):
        axes.fill_between(seconds, 0, truth[:, column], step="post", color="C1", alpha=0.35, linewidth=0)
        axes.step(seconds, scores[:, column], where="post", color="C0", linewidth=1)
        axes.set_xlim(0, seconds[-1])
        axes.set_ylim(0, 1)
        axes.set_ylabel(classes[column], rotation=0, ha="right", va="center")
        axes.set_yticks([0, 1])
    strips[0].set_title(f"{title} (shaded: truth)")
    strips[-1].set_xlabel("seconds")
    _save(figure, path)


def _figure(width: float, height: float) -> Figure:
    # The object-oriented interface: no global state, and no window system is looked for.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: Path) -> None:
    suffix = check_plot_path(path)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format=suffix, dpi=_DOTS_PER_INCH, bbox_inches="tight")
