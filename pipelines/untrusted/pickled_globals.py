"""The names that a pickle may ask for, and what stands in for each: our own builders, never the named object.

A name is known under the module paths of old and new numpy and of Python 2 and 3.
"""

from __future__ import annotations

import argparse
import math
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray


class RefusedError(Exception):
    """The file asks for something that is not on the list; the message says what."""


class RefusedNameError(RefusedError):
    """It asks for a function or class by its name: only pickles do, while other refusals may be chance bytes."""


class Known(Enum):
    """A name on the list."""

    NDARRAY = auto()
    RECONSTRUCT_ARRAY = auto()
    ARRAY_FROM_BUFFER = auto()
    SCALAR = auto()
    DTYPE = auto()
    ENCODE = auto()
    ORDERED_DICT = auto()
    SET = auto()
    FROZENSET = auto()
    BYTES = auto()
    BYTEARRAY = auto()
    NAMESPACE = auto()
    OBJECT = auto()
    RECONSTRUCT_OBJECT = auto()


KNOWN_GLOBALS: dict[tuple[str, str], Known] = {
    ("numpy", "ndarray"): Known.NDARRAY,
    ("numpy", "dtype"): Known.DTYPE,
    ("_codecs", "encode"): Known.ENCODE,
    ("collections", "OrderedDict"): Known.ORDERED_DICT,
    ("argparse", "Namespace"): Known.NAMESPACE,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): Known.RECONSTRUCT_ARRAY for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): Known.SCALAR for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): Known.ARRAY_FROM_BUFFER for core in ("core", "_core")},
    **{(module, "_reconstructor"): Known.RECONSTRUCT_OBJECT for module in ("copyreg", "copy_reg")},
    **{
        (module, name): known
        for module in ("builtins", "__builtin__")
        for name, known in {
            "set": Known.SET,
            "frozenset": Known.FROZENSET,
            "bytes": Known.BYTES,
            "bytearray": Known.BYTEARRAY,
            "object": Known.OBJECT,
        }.items()
    },
}

MOST_DIMENSIONS = 32  # of an array, as in numpy 1
# Kinds of numpy types that are plain data: booleans, integers, floats, complex numbers, bytes and text.
PLAIN_KINDS = frozenset("biufcSU")


@dataclass
class Pending:
    """An array or type that the file has announced and not yet described."""

    dtype: np.dtype[Any] | None = None  # a type waiting for its byte order; None: an array waiting for everything
    value: Any = None


def call(function: Any, arguments: Any) -> Any:
    """What `function(*arguments)` stands for (instruction REDUCE)."""
    if not isinstance(arguments, tuple):
        raise ValueError("arguments that are not a tuple")
    match function, arguments:
        case Known.RECONSTRUCT_ARRAY, (Known.NDARRAY, *_):
            return Pending()
        case Known.ARRAY_FROM_BUFFER, (buffer, dtype, shape, order):
            return _array(buffer, dtype, shape, order)
        case Known.DTYPE, (str() as code, *_):
            return Pending(dtype=_plain_dtype(code))
        case Known.SCALAR, (dtype, raw):
            return _scalar(_array(raw, dtype, (1,), "C")[0])
        case Known.ENCODE, (str() as text, str() as codec) if codec.replace("-", "").lower() == "latin1":
            return text.encode("latin-1")
        case Known.ORDERED_DICT, ():
            return OrderedDict()
        case Known.ORDERED_DICT, (list() as pairs,):
            return OrderedDict((key, value) for key, value in pairs)
        case Known.SET, (list() as members,):
            return set(members)
        case Known.FROZENSET, (list() as members,):
            return frozenset(members)
        case Known.BYTES, ():
            return b""
        case Known.BYTEARRAY, ():
            return bytearray()
        case Known.BYTEARRAY, (bytes() as raw,):
            return bytearray(raw)
        case Known.BYTEARRAY, (str() as text, str()):
            return bytearray(text.encode("latin-1"))
        case Known.RECONSTRUCT_OBJECT, (Known.NAMESPACE, Known.OBJECT, None):
            return argparse.Namespace()
        case Known.NAMESPACE, ():
            return argparse.Namespace()
    raise RefusedError(f"a call of {_named(function)} with arguments that it does not have in plain data")


def make(kind: Any, arguments: Any) -> Any:
    """A new object without a call (instruction NEWOBJ)."""
    if kind is Known.NAMESPACE and arguments == ():
        return argparse.Namespace()
    if kind is Known.ORDERED_DICT and arguments == ():
        return OrderedDict()
    raise RefusedError(f"a new {_named(kind)}")


def build(target: Any, state: Any) -> Any:
    """`target` with its state filled in (instruction BUILD)."""
    if isinstance(target, Pending):
        return _described_dtype(target.dtype, state) if target.dtype is not None else _described_array(state)
    if isinstance(target, argparse.Namespace):
        if not isinstance(state, dict) or not all(isinstance(key, str) and not key.startswith("__") for key in state):
            raise RefusedError("a Namespace with names that are not plain")
        vars(target).update(state)
        return target
    raise RefusedError(f"state for {_named(target)}")


def _described_array(state: Any) -> NDArray[Any]:
    match state:
        case (_, shape, dtype, is_fortran, raw) | (shape, dtype, is_fortran, raw):
            return _array(raw, dtype, shape, "F" if is_fortran else "C")
    raise ValueError("an array with a description that is not numpy's")


def _described_dtype(dtype: np.dtype[Any], state: Any) -> np.dtype[Any]:
    match state:
        case (_, str() as order, None, None, None, *_) if order in ("<", ">", "|"):
            return dtype.newbyteorder("<" if order == "<" else ">" if order == ">" else "|")
    raise RefusedError("an array type with fields or metadata")


def _plain_dtype(code: str) -> np.dtype[Any]:
    dtype = np.dtype(code)
    if dtype.kind not in PLAIN_KINDS or dtype.names is not None or dtype.subdtype is not None:
        what = "Python objects" if dtype.kind == "O" else f"type '{code}'"
        raise RefusedError(f"a numpy array of {what}")
    return dtype


def _array(raw: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    """A read-only array over the raw bytes of the file."""
    if isinstance(dtype, Pending):
        dtype = dtype.dtype
    if not isinstance(dtype, np.dtype):
        raise ValueError("an array without a type")
    if isinstance(raw, str):
        raw = raw.encode("latin-1")  # Python 2 wrote bytes as text
    if isinstance(raw, np.ndarray | list) or not isinstance(raw, bytes | bytearray):
        raise RefusedError("a numpy array of Python objects")
    if not isinstance(shape, tuple) or not all(isinstance(size, int) and 0 <= size < 1 << 63 for size in shape):
        raise ValueError("an array with a shape that is not a tuple of sizes")
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"an array of {len(shape)} dimensions")
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {shape} and type {dtype} with {len(raw)} bytes")
    if order not in ("C", "F"):
        raise ValueError("an array with an unknown order")
    array: NDArray[Any] = np.frombuffer(raw, dtype=dtype) if raw else np.empty(0, dtype=dtype)
    array = array.reshape(shape, order=order)
    array.flags.writeable = False
    return array


def _scalar(value: Any) -> Any:
    """A number that may be a key. Of complex and long ones, any number share a hash (see `pickle_bounds`)."""
    if value.dtype.kind == "c" or (value.dtype.kind == "f" and value.dtype.itemsize > 8):
        raise RefusedError(f"a number of type {value.dtype} by itself")
    return value


def _named(value: Any) -> str:
    if isinstance(value, Known):
        return next(f"'{module}.{name}'" for (module, name), known in KNOWN_GLOBALS.items() if known is value)
    return f"a {type(value).__name__}"
