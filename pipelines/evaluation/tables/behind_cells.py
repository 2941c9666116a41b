"""A confusion matrix with what stands behind its cells: the clips, or the stretches of recordings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.scores.classification import clip_labels, clip_predictions, confusion_matrix
from pipelines.evaluation.scores.detection import DetectionScore
from pipelines.evaluation.scores.predictions import Predictions
from pipelines.metrics.precision import Integers

MOST_CLASSES = 60  # of a matrix that a person can still read
MOST_BEHIND = 12  # clips or stretches of a cell, the longest first


@dataclass(frozen=True)
class Behind:
    """One clip, or one stretch of frames: (recording, first frame, frames)."""

    recording: int  # index into the predictions' videos
    first: int
    frames: int


@dataclass(frozen=True)
class ConfusionCells:
    """Who is taken for whom."""

    classes: tuple[str, ...]
    unit: str  # what is counted: "clips" or "frames"
    counts: NDArray[np.int64]  # (true classes, named classes)
    behind: dict[tuple[int, int], list[Behind]]  # by true and named class


def clip_cells(predictions: Predictions, classes: tuple[str, ...]) -> ConfusionCells:
    """Whole clips, by their last token."""
    truth, named = clip_labels(predictions), clip_predictions(predictions, "last")
    starts = predictions.starts()
    lengths = np.diff(np.append(starts, predictions.frames))
    cells: dict[tuple[int, int], list[Behind]] = {}
    for recording, (own, given) in enumerate(zip(truth.tolist(), named.tolist(), strict=True)):
        cells.setdefault((own, given), []).append(Behind(recording, 0, int(lengths[recording])))
    return ConfusionCells(classes, "clips", confusion_matrix(truth, named, len(classes)), _longest(cells))


def frame_cells(predictions: Predictions, score: DetectionScore) -> ConfusionCells | None:
    """Frames that have one class, background included; None where no frame has."""
    columns, names = _columns(predictions, score)
    truth = predictions.positives(columns)
    single = np.asarray(truth.sum(axis=1) == 1)
    if not single.any():
        return None
    own = np.where(single, truth.argmax(axis=1), -1)
    named = predictions.scores[:, columns].argmax(axis=1)
    counts = confusion_matrix(own[single], named[single], len(columns))
    return ConfusionCells(names, "frames", counts, _longest(_stretches(predictions, own, named)))


def _columns(predictions: Predictions, score: DetectionScore) -> tuple[list[int], tuple[str, ...]]:
    """The scored classes and the one in which nothing happens, in the order of the scores."""
    names = predictions.classes or ()
    left_out = [column for column, name in enumerate(names) if name not in score.classes]
    # A class that is neither scored nor background is ambiguous: nobody can say what those frames are.
    background = left_out[:1] if left_out and left_out[0] == 0 else []
    columns = sorted([*background, *(names.index(name) for name in score.classes)])
    return columns, tuple(names[column] for column in columns)


def _stretches(predictions: Predictions, own: Integers, named: Integers) -> dict[tuple[int, int], list[Behind]]:
    """Runs of frames with the same truth and the same answer; own: −1 where a frame has no single class."""
    video = predictions.video
    changes = (own[1:] != own[:-1]) | (named[1:] != named[:-1]) | (video[1:] != video[:-1])
    begins = np.append(0, np.flatnonzero(changes) + 1)
    ends = np.append(begins[1:], len(own))
    starts = predictions.starts()
    cells: dict[tuple[int, int], list[Behind]] = {}
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        if own[begin] < 0:
            continue
        recording = int(video[begin])
        place = Behind(recording, begin - int(starts[recording]), end - begin)
        cells.setdefault((int(own[begin]), int(named[begin])), []).append(place)
    return cells


def _longest(cells: dict[tuple[int, int], list[Behind]]) -> dict[tuple[int, int], list[Behind]]:
    return {
        cell: sorted(places, key=lambda place: -place.frames)[:MOST_BEHIND] for cell, places in sorted(cells.items())
    }
