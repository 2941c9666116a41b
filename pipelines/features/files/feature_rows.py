"""Rows of features that stay on disk until they are asked for: one file, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError
from pipelines.features.files.npy_reader import read_npy


@dataclass(frozen=True)
class FeatureRows:
    """Memory-mapped parts side by side: `rows[start:stop]` reads (stop - start, width) float32 from disk."""

    parts: tuple[NDArray[Any], ...]  # each (rows or a few more, part width)
    length: int

    @classmethod
    def joined(cls, parts: Sequence[NDArray[Any]], names: Sequence[str], owner: str, trim: int = 0) -> FeatureRows:
        """Parts whose numbers of rows differ by at most `trim`, cut to the shortest; names: theirs, for the error."""
        lengths = [len(part) for part in parts]
        if max(lengths) - min(lengths) > trim:
            listed = ", ".join(f"{name} has {length}" for name, length in zip(names, lengths, strict=True))
            raise InputError(
                f"{owner}: its feature files differ by more than {trim} rows: {listed}; extract them again, with one "
                "hop"
            )
        return cls(tuple(parts), min(lengths))

    @property
    def width(self) -> int:
        return sum(int(part.shape[1]) for part in self.parts)

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


def open_array(path: Path) -> NDArray[Any]:
    """A .npy file (rows, width) of floats, memory-mapped."""
    array = read_npy(path)
    if array.ndim != 2 or array.dtype.kind != "f" or 0 in array.shape:
        shape = f"{array.dtype} of shape {array.shape}"
        raise InputError(f"{path}: features must be floats of shape (rows, width), not {shape}")
    return array
