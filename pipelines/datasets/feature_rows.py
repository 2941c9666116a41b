"""Feature files of one recording as one array that stays on disk until rows of it are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.dataset import TRIM
from pipelines.datasets.item import Item
from pipelines.errors import InputError
from pipelines.features.files.npy_reader import read_npy


@dataclass(frozen=True)
class FeatureRows:
    """Memory-mapped parts side by side: `rows[start:stop]` reads (stop - start, width) float32 from disk."""

    parts: tuple[NDArray[Any], ...]  # each (rows or a few more, part width)
    length: int

    @property
    def width(self) -> int:
        return sum(part.shape[1] for part in self.parts)

    @property
    def shape(self) -> tuple[int, int]:
        return self.length, self.width

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, rows: slice) -> NDArray[np.float32]:
        start, stop, step = rows.indices(self.length)
        if len(self.parts) == 1:
            return np.array(self.parts[0][start:stop:step], dtype=np.float32)
        selected = [part[start:stop:step] for part in self.parts]
        return np.concatenate(selected, axis=1, dtype=np.float32, casting="same_kind")

    def trimmed(self, length: int) -> FeatureRows:
        """The first `length` rows."""
        return FeatureRows(self.parts, min(length, self.length))


def open_rows(item: Item, trim: int = TRIM) -> FeatureRows:
    """The features of an item, memory-mapped; parts whose lengths differ by at most `trim` are trimmed."""
    if not item.features:
        what = f"only media ({item.media})" if item.media is not None else "neither features nor media"
        raise InputError(f"{item.name}: there is {what}; extract features first, or give their folder")
    parts = tuple(open_array(path) for path in item.features)
    lengths = [len(part) for part in parts]
    if max(lengths) - min(lengths) > trim:
        listed = ", ".join(f"{path} has {length}" for path, length in zip(item.features, lengths, strict=True))
        raise InputError(
            f"{item.name}: its feature files differ by more than {trim} rows: {listed}; extract them again, with one "
            "hop"
        )
    return FeatureRows(parts, min(lengths))


def open_array(path: Path) -> NDArray[Any]:
    """A .npy file (rows, width) of floats, memory-mapped."""
    array = read_npy(path)
    if array.ndim != 2 or array.dtype.kind != "f" or 0 in array.shape:
        found = f"{array.dtype} of shape {array.shape}"
        raise InputError(f"{path}: features must be floats of shape (rows, width), not {found}")
    return array
