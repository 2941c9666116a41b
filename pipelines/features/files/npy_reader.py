"""Reading .npy files that anybody may have written: mapped from the disk, and nothing in them is run."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError

# numpy parses a file's header with `ast`, which in Python 3.11 fails now and then in two threads at once
# (SystemError: AST constructor recursion depth mismatch).
_ONE_AT_A_TIME = Lock()


def read_npy(path: Path) -> NDArray[Any]:
    """The array in a file, memory-mapped where it has any element; whatever else stands there is one clear line."""
    if path.exists() and not path.is_file():  # a named pipe would be waited for, with the lock held
        raise InputError(f"cannot read {path}: it is no file")
    with _ONE_AT_A_TIME:
        return _read(path)


def _read(path: Path) -> NDArray[Any]:
    try:
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        # numpy cannot map an array without a single element; such a file is read instead.
        try:
            array = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            raise InputError(f"{path} is not a .npy file of plain numbers: {error}") from error
    except FileNotFoundError as error:
        raise InputError(f"cannot read {path}: there is no file {path.name}") from error
    except (OSError, EOFError, BadZipFile) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is an .npz archive; give the .npy files in it")
    return array
