"""The compiled library: found, checked against its sources, and loaded once.

`hatch_build.py` compiles it when cotrans is installed, where there is a C compiler. COTRANS_NATIVE=0 leaves it alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from ctypes import POINTER, Structure, c_double, c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "kernels.so"
SETS = ("avx512", "avx2")  # instruction sets that it is compiled for, the best first
SWITCH = "COTRANS_NATIVE"


class Linear(Structure):
    """A linear layer, as kernels.c describes it."""

    _fields_ = [
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("scale", c_void_p),
        ("sums", c_void_p),
        ("outputs", c_int32),
        ("inputs", c_int32),
        ("kind", c_int32),
        ("parts", c_int32),
        ("largest", c_int32),
    ]


class Block(Structure):
    """An encoder block and the rings of its streams."""

    _fields_ = [
        ("projection", Linear),
        ("output", Linear),
        ("expand", Linear),
        ("contract", Linear),
        ("attention_gain", c_void_p),
        ("attention_shift", c_void_p),
        ("feed_forward_gain", c_void_p),
        ("feed_forward_shift", c_void_p),
        ("age_bias", c_void_p),
        ("key", c_void_p),
        ("value", c_void_p),
        ("recent", c_void_p),
        ("scratch", c_void_p),
        ("epsilon", c_float),
        ("scale", c_float),
        ("heads", c_int32),
        ("slots", c_int32),
        ("width", c_int32),
        ("lag", c_int32),
        ("pre_norm", c_int32),
        ("gelu", c_int32),
    ]


class Rows(Structure):
    """The retroactive rows of one stream."""

    _fields_ = [
        ("query", c_void_p),
        ("magnitude", c_void_p),
        ("key", c_void_p),
        ("value", c_void_p),
        ("sums", c_void_p),
        ("reference", c_void_p),
        ("error", c_void_p),
        ("scratch", c_void_p),
        ("scale", c_double),
        ("tolerance", c_double),
        ("heads", c_int32),
        ("slots", c_int32),
        ("width", c_int32),
    ]


class Kernels(NamedTuple):
    """The functions of kernels.c, for one instruction set. Pointers to floats and doubles are plain addresses."""

    instructions: str
    step: Any  # (Block, tokens, streams, positions, count, out)
    newest: Any  # (Block, rows, keys and values, slot, out)
    norm_rows: Any  # (x, y, bias, gain, shift, epsilon, m, d, total, out)
    activate_rows: Any  # (x, bias, m, d, gelu)
    update_rows: Any  # (Rows, projected, slot, leaves, out)


@cache
def kernels() -> Kernels | None:
    """The functions for this processor; None: not compiled here, not for it, or not wanted."""
    if os.environ.get(SWITCH) == "0" or not LIBRARY.is_file():
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.cotrans_sources.restype = ctypes.c_char_p
        if library.cotrans_sources().decode() != sources_digest():
            return None  # compiled from another revision: its structures may be others
        number = library.cotrans_processor()
    except (OSError, AttributeError):
        return None
    return functions(library, SETS[number]) if number >= 0 else None


def functions(library: ctypes.CDLL, instructions: str) -> Kernels:
    """Those of one instruction set."""

    def function(name: str, *arguments: Any) -> Any:
        found = getattr(library, f"cotrans_{name}_{instructions}")
        found.argtypes, found.restype = arguments, None
        return found

    return Kernels(
        instructions,
        function("step", POINTER(Block), c_void_p, c_void_p, c_void_p, c_int64, c_void_p),
        function("newest", POINTER(Block), c_void_p, c_void_p, c_int32, c_void_p),
        function("norm_rows", *[c_void_p] * 5, c_float, c_int64, c_int64, c_void_p, c_void_p),
        function("activate_rows", c_void_p, c_void_p, c_int64, c_int64, c_int32),
        function("update_rows", POINTER(Rows), c_void_p, c_int64, c_int32, c_void_p),
    )


def sources_digest() -> str:
    """What the library is compiled with, to know it again. `hatch_build.py` has the same."""
    digest = hashlib.sha256()
    for path in sorted(FOLDER.glob("*.[ch]")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
