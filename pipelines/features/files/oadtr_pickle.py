"""Writing OadTR's feature pickle, {video: {"rgb": (T, 2048), ...}}, with one video in memory at a time."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.files import atomic_write

# Protocol 3 is the newest that numbers its memo explicitly, so that pickles of parts can stand one after
# another in one stream; and the Python versions of these projects all read it.
PROTOCOL = 3
BEGIN = b"\x80\x03}("  # protocol 3, an empty dictionary, a mark
END = b"u."  # put all pairs since the mark into the dictionary; the end


def write_oadtr_pickle(path: Path, videos: Iterable[tuple[str, Mapping[str, NDArray[Any]]]]) -> int:
    """Write the pickle and return how many videos it holds. Arrays may be memory maps."""
    count = 0
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        file.write(BEGIN)
        for name, features in videos:
            file.write(_part(name))
            file.write(_part({key: np.array(value) for key, value in features.items()}))
            count += 1
        file.write(END)
    return count


def _part(value: Any) -> bytes:
    """The pickle of a value without its first two bytes (protocol) and its last (stop)."""
    data = pickle.dumps(value, protocol=PROTOCOL)[2:-1]
    # numpy 2 writes a module name that numpy 1 does not have; both have the old one. It stands once, before
    # the first array: later ones refer back to it.
    return data.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n", 1)
