"""Writing a .npy file row by row, without knowing how many rows will come."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError

Dtype = Literal["float32", "float16", "float64"]
HEADER = 128  # bytes: magic, version, length, the dictionary and its padding; a multiple of 64, as numpy wants it


def npy_header(rows: int, width: int | None, dtype: str) -> bytes:
    """The header (format 1.0) of a (rows, width) array, or (rows,) without width: always `HEADER` bytes."""
    shape = f"({rows},)" if width is None else f"({rows}, {width})"
    description = np.dtype(dtype).newbyteorder("<").str
    text = f"{{'descr': '{description}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + text.ljust(HEADER - 11).encode() + b"\n"


class NpyWriter:
    """An open .npy file to which rows (k, width), or numbers (k,) without width, are appended."""

    def __init__(self, path: Path, width: int | None, dtype: Dtype) -> None:
        self.rows = 0
        self._width, self._dtype = width, dtype
        self._file = path.open("wb")
        self._file.write(npy_header(0, width, dtype))

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows; numbers that are not finite, here or in the file's precision, are an error."""
        with np.errstate(over="ignore"):
            converted = np.ascontiguousarray(rows, dtype=np.dtype(self._dtype).newbyteorder("<"))
        if converted.shape[1:] != (() if self._width is None else (self._width,)):
            raise ValueError(f"rows of shape {converted.shape} in a file of width {self._width}")
        if not np.isfinite(converted).all():
            if np.isfinite(rows).all():
                raise InputError(f"features up to {np.abs(rows).max():.3g} do not fit {self._dtype}: use float32")
            raise InputError(f"NaN or infinity in the features from row {self.rows} on")
        self._file.write(converted.data)
        self.rows += len(converted)

    def close(self) -> None:
        """Write the final number of rows."""
        if not self._file.closed:
            self._file.seek(0)
            self._file.write(npy_header(self.rows, self._width, self._dtype))
            self._file.close()

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
