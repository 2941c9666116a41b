"""From times and annotation files to one row of targets for each row of features.

**Rounding.** Row i of a stream with hop h stands for the time from i·h to (i+1)·h. It belongs to a segment
when the middle of that time, (i + ½)·h, lies in start ≤ time < end. Segments that touch neither overlap nor
leave a gap. A segment that is too short to hold any middle gets the one row in which its own middle lies, so
no event is lost. That is the rule `middle`. By the rule `lstr` a row belongs to every segment that touches it, from
floor(start / h) to ceil(end / h) - 1, as in the files that LSTR, TeSTra and MiniROAD are trained on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.dataset import Dataset, LabelRule
from pipelines.datasets.item import Item, Segment
from pipelines.errors import InputError
from pipelines.features.files.npy_reader import read_npy

ROUNDING = 1e-6  # rows: times are decimal fractions, and 0.3 / 0.2 is not exactly 1.5


@dataclass(frozen=True)
class FrameTargets:
    """Targets of one recording."""

    targets: NDArray[np.float32]  # (rows, classes): 1 where a class is present, else 0
    valid: NDArray[np.bool_]  # (rows,): False where a row is ambiguous and left out of loss and score

    def __len__(self) -> int:
        return len(self.targets)


def frame_range(start: float, end: float, hop: float, rule: LabelRule = "middle") -> range:
    """The rows of a segment (see the rounding rules above); never empty."""
    if rule == "lstr":
        touched = math.floor(start / hop + ROUNDING)
        return range(touched, max(math.ceil(end / hop - ROUNDING), touched + 1))
    first = math.ceil(start / hop - 0.5 - ROUNDING)
    stop = math.ceil(end / hop - 0.5 - ROUNDING)
    if stop > first:
        return range(first, stop)
    middle = math.floor((start + end) / 2 / hop + ROUNDING)
    return range(middle, middle + 1)


def frame_targets(dataset: Dataset, item: Item, rows: int, hop: float | None = None) -> FrameTargets:
    """Targets for the first `rows` rows of a recording's features.

    `hop` is the seconds between those rows (default: the dataset's). The result may be shorter than `rows`,
    by at most `dataset.trim`, when the annotation is: trim the features to `len(result)`.
    """
    hop = dataset.hop if hop is None else hop
    if item.targets is not None:
        targets = _from_file(dataset, item, rows)
    elif item.segments is not None:
        if hop is None:
            raise InputError(
                f"{item.name}: the time between feature rows is not known, so its labels cannot be placed: say it with "
                "--hop"
            )
        targets = _from_segments(dataset, item, item.segments, rows, hop)
    elif item.label is not None:
        targets = np.zeros((rows, len(dataset.class_names)), dtype=np.float32)
        targets[:, item.label] = 1.0
    else:
        raise InputError(f"{item.name}: dataset {dataset.name} has no labels for it: look with `cotrans data inspect`")
    if dataset.background is not None:
        targets[~targets.any(axis=1), dataset.background] = 1.0
    valid = np.ones(len(targets), dtype=np.bool_)
    if dataset.ignored:
        valid &= ~(targets[:, list(dataset.ignored)] > 0).any(axis=1)
    return FrameTargets(targets, valid)


def check_lengths(item: Item, rows: int, labels: int, trim: int) -> int:
    """The common length of features and labels; a difference above `trim` is an error that names the item."""
    if abs(rows - labels) > trim:
        where = ", ".join(map(str, item.features)) or str(item.media or item.name)
        raise InputError(
            f"{item.name}: {rows} feature rows and {labels} labelled frames differ by more than {trim}: "
            f"they do not belong together, or have different rates ({where}; labels: {item.targets or 'segments'})"
        )
    return min(rows, labels)


def _from_file(dataset: Dataset, item: Item, rows: int) -> NDArray[np.float32]:
    assert item.targets is not None
    stored = read_npy(item.targets)
    classes = len(dataset.class_names)
    if stored.ndim != 2 or stored.shape[1] != classes:
        raise InputError(f"{item.targets}: labels have shape {stored.shape}, not (frames, {classes})")
    length = check_lengths(item, rows, len(stored), dataset.trim)
    return np.array(stored[:length], dtype=np.float32)


def _from_segments(
    dataset: Dataset, item: Item, segments: Sequence[Segment], rows: int, hop: float
) -> NDArray[np.float32]:
    targets = np.zeros((rows, len(dataset.class_names)), dtype=np.float32)
    # Short segments last: where only one label fits, the event that would be lost otherwise keeps its row.
    for segment in sorted(segments, key=lambda segment: segment.start - segment.end):
        frames = frame_range(segment.start, segment.end, hop, dataset.label_rule)
        if frames.stop > rows + dataset.trim:
            where = f" ({segment.origin})" if segment.origin else ""
            raise InputError(
                f"{item.name}: a segment ends at {segment.end:g} s{where}, but the features end at "
                f"{rows * hop:g} s ({rows} rows, one every {hop:g} s)"
            )
        part = targets[frames.start : frames.stop]
        if not dataset.multi_label:
            part[:] = 0.0
        part[:, segment.label] = 1.0
    return targets
