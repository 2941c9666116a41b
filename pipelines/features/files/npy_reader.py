"""Reading .npy files that anybody may have written: mapped from the disk, and nothing in them is run."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError
from pipelines.untrusted.npz_file import array_header
from pipelines.untrusted.parsing import parsing

# numpy parses a file's header with `ast`, which in Python 3.11 fails now and then in two threads at once
# (SystemError: AST constructor recursion depth mismatch).
_ONE_AT_A_TIME = Lock()
_LONGEST_HEADER = 1 << 14  # bytes; numpy reads none that is longer
_ZIP = b"PK\x03\x04"


def read_npy(path: Path) -> NDArray[Any]:
    """The array in a file, memory-mapped where it has any element; whatever else stands there is one clear line."""
    if path.exists() and not path.is_file():  # a named pipe would be waited for, with the lock held
        raise InputError(f"cannot read {path}: it is no file")
    with _ONE_AT_A_TIME:
        return _read(path)


def _read(path: Path) -> NDArray[Any]:
    def refuse(why: str) -> InputError:
        return InputError(f"{path} is not a .npy file of plain numbers: {why}")

    try:
        with path.open("rb") as file:
            start = file.read(_LONGEST_HEADER)
    except FileNotFoundError as error:
        raise InputError(f"cannot read {path}: there is no file {path.name}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    if zipfile.is_zipfile(path):
        raise InputError(f"{path} is an .npz archive; give the .npy files in it")
    if not start or start.startswith(_ZIP):
        raise InputError(f"cannot read {path}: {'it is cut off' if start else 'the file is empty'}")
    with parsing(refuse):
        header = array_header(start)
        if not math.prod(header.shape):  # numpy cannot map an array without a single element
            return np.empty(header.shape, header.dtype)
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise refuse("it holds something else")
    return array
