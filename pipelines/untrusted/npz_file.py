"""Reading .npz archives and .npy bytes that nobody vouches for: sizes are compared before anything is allocated."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CotransError
from pipelines.untrusted.archives import MOST_MEMBERS, unpacked_bound
from pipelines.untrusted.parsing import parsing

# Versions of the format that plain arrays are written in; the third is for structures with names in Unicode.
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class ArrayHeader:
    """What stands in front of the numbers of an array."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype[Any]
    length: int  # bytes


def read_npz(path: Path, refuse: Callable[[str], CotransError]) -> dict[str, NDArray[Any]]:
    """Every array of an archive by its name. refuse: the error for a reason in a few words."""
    with parsing(refuse), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        most = unpacked_bound(path.stat().st_size)
        if len(members) > MOST_MEMBERS or sum(member.file_size for member in members) > most:
            raise refuse(f"it unpacks to more than {most:,} bytes, which an archive of its size does not")
        return {
            # A member gives no more than it announces: zipfile cuts it off there.
            member.filename.removesuffix(".npy"): plain_array(archive.read(member))
            for member in members
        }


def plain_array(data: bytes) -> NDArray[Any]:
    """The array in the bytes of a .npy file; ValueError where it is none of plain numbers, or not all is there."""
    header = array_header(data)
    raw = data[header.length :]
    if math.prod(header.shape) * header.dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {header.shape} and type {header.dtype} with {len(raw)} bytes")
    array: NDArray[Any] = np.frombuffer(raw, header.dtype) if raw else np.empty(0, header.dtype)
    return array.reshape(header.shape, order=header.order).copy()


def array_header(start: bytes) -> ArrayHeader:
    """What the first bytes of a .npy file say; whatever numpy raises where they are none."""
    file = io.BytesIO(start)
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the format is not read")
    shape, fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject or dtype.kind == "V":
        raise ValueError("pickled objects are not loaded")
    if not all(isinstance(size, int) and 0 <= size < 1 << 63 for size in shape):
        raise ValueError("its shape is no shape")
    return ArrayHeader(shape, "F" if fortran else "C", dtype, file.tell())
