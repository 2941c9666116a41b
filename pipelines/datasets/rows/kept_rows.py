"""Rows that are made of several recordings at once, computed once and kept in the cache beside those of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pipelines.datasets.item import Item
from pipelines.errors import InputError
from pipelines.features.extractor import Rows
from pipelines.features.files.npy_reader import read_npy
from pipelines.files import atomic_write


def kept_rows(path: Path, fits: Callable[[tuple[int, ...]], bool], compute: Callable[[], Rows]) -> Rows:
    """The rows of a file; where there is none, or none whose shape fits, they are computed and written."""
    try:
        rows = read_npy(path)
    except InputError:  # not there yet, or damaged
        pass
    else:
        if rows.dtype == np.float32 and fits(rows.shape):
            return np.array(rows)
    computed = compute()
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.save(file, computed)
    return computed


def media_digest(how: str, items: Sequence[Item]) -> str:
    """A name for what is made of some media, and how: of files that have changed since, it is another one."""
    told = [how]
    for item in items:
        path = Path(str(item.media))
        known = path.stat() if path.is_file() else None
        told.append(f"{path.absolute()} {known and (known.st_size, known.st_mtime_ns)}")
    return hashlib.sha256("\n".join(told).encode(errors="surrogateescape")).hexdigest()[:16]
