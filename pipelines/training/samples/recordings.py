"""What training reads of one recording: rows of features, targets, and which rows count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.datasets.rows.frame_targets import frame_targets
from pipelines.errors import InputError
from pipelines.features.extractor import Rows
from pipelines.running.runner import RowSource


@dataclass(frozen=True, eq=False)
class Recording:
    """One recording. A clip has a label; a stream has a row of targets for each row of features."""

    name: str
    rows: RowSource  # (T, width)
    classes: int
    label: int | None = None
    targets: Rows | None = None  # (T, classes) zeros and ones
    valid: NDArray[np.bool_] | None = None  # (T,): False where a row is left out of loss and score

    def __len__(self) -> int:
        return self.rows.shape[0]

    def finite(self, rows: Rows, begin: int = 0) -> Rows:
        """These rows of the recording, from `begin` on; an error where they hold what nothing can be learned from."""
        if not np.isfinite(rows).all():
            bad = begin + int(np.argmax(~np.isfinite(rows).all(axis=1)))
            raise InputError(f"{self.name}: NaN or infinity in its features, first in row {bad}: extract it again")
        return rows

    def target_rows(self, index: NDArray[np.int64]) -> Rows:
        """(k,) row numbers to (k, classes)."""
        if self.targets is not None:
            return self.targets[index]
        result = np.zeros((len(index), self.classes), dtype=np.float32)
        result[:, self.label] = 1.0
        return result

    def valid_rows(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(k,) row numbers to (k,)."""
        return np.ones(len(index), dtype=np.bool_) if self.valid is None else self.valid[index]


def open_recordings(dataset: Dataset, items: Iterable[Item]) -> tuple[Recording, ...]:
    """The recordings of some items of a dataset; features stay on disk."""
    recordings = tuple(_open(dataset, item) for item in items)
    check_widths(recordings)
    return recordings


def feature_width(recordings: Sequence[Recording]) -> int:
    """Numbers per row."""
    return recordings[0].rows.shape[1]


def check_widths(recordings: Sequence[Recording]) -> None:
    """All recordings must have features of the same width."""
    widths: dict[int, str] = {}
    for recording in recordings:
        widths.setdefault(recording.rows.shape[1], recording.name)
    if len(widths) > 1:
        listed = " and ".join(f"{width} ({name})" for width, name in list(widths.items())[:2])
        raise InputError(f"the features have different widths: {listed}; extract all of them in the same way")


def _open(dataset: Dataset, item: Item) -> Recording:
    rows = open_rows(item, dataset.trim)
    classes = len(dataset.class_names)
    if dataset.kind == "clips":
        if item.label is None:
            raise InputError(f"{item.name}: dataset {dataset.name} has no label for it")
        return Recording(item.name, rows, classes, label=item.label)
    labels = frame_targets(dataset, item, len(rows))
    rows = rows.trimmed(len(labels))
    return Recording(item.name, rows, classes, targets=labels.targets, valid=labels.valid)
