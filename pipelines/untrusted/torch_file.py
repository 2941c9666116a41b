"""Files that `torch.save` wrote, read without running anything in them.

A file is looked at twice. First its pickle is gone through with stand-ins for everything that it names: this tells
what it asks for and how large its tensors say they are, and nothing is allocated. Only a file that asks for nothing
but weights, and whose tensors are really in it, is then given to `torch.load(weights_only=True)`.
"""

from __future__ import annotations

import argparse
import io
import math
import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch

from pipelines.errors import CheckpointError
from pipelines.untrusted.bounded_file import BoundedFile
from pipelines.untrusted.parsing import parsing, reason
from pipelines.untrusted.pickle_bounds import WorkBudget, check_pickle
from pipelines.untrusted.pickled_globals import MOST_DIMENSIONS
from pipelines.wording import one_line

# What `torch.save` writes before anything else in files of before 2020: a magic number, pickled.
LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
ZIP_START = b"PK\x03\x04"

_ITEM_SIZES = {
    "DoubleStorage": 8, "FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2, "LongStorage": 8, "IntStorage": 4,
    "ShortStorage": 2, "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1,
}  # fmt: skip
_DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
ARRAY_TYPES = ("float32", "float64", "int32", "int64", "uint8")  # of numpy, where they are read
_ARRAY_CODES = frozenset(np.dtype(name).str[1:] for name in ARRAY_TYPES)
READS = "only tensors, plain values and argparse.Namespace are read, and nothing in the file was run"
WHOLE_MODEL = "model = torch.load(FILE, weights_only=False); torch.save(model.state_dict(), 'weights.pth')"
TORCHSCRIPT = "model = torch.jit.load(FILE); torch.save(model.state_dict(), 'weights.pth')"
EXPORTED = "model = torch.export.load(FILE); torch.save(model.state_dict, 'weights.pth')"


class _RefusedError(Exception):
    """What the file asks for and does not get. advice: Python that makes a file which we read, for its owner."""

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.advice = advice


class _DamagedError(Exception):
    """Why the file cannot be right."""


@dataclass(frozen=True)
class _Storage:
    """The numbers behind tensors, as the pickle declares them."""

    numbers: int
    item_size: int


@dataclass
class _Shape:
    """Stands in for a tensor."""

    shape: tuple[int, ...]
    item_size: int

    def __setstate__(self, state: object) -> None:
        """Attributes of a tensor: none that we need."""


def read_torch_file(path: Path, arrays: bool = False) -> Any:
    """The value in a file of `torch.save`: tensors on the CPU in plain containers. arrays: numpy's too."""

    def damaged(said: str) -> CheckpointError:
        return CheckpointError(f"{path} is damaged or not a PyTorch file ({said})")

    with _readable(path) as file, parsing(damaged):
        start = file.read(len(LEGACY_START))
        size = path.stat().st_size
        try:
            if start.startswith(ZIP_START):
                _inspect_archive(file, size, arrays)
            else:
                _inspect_legacy(file, size, arrays)
        except _RefusedError as refusal:
            said = f"{path}: refused: the file asks for '{one_line(str(refusal))}'; {READS}"
            advice = f"; if it is yours, save the weights alone: {refusal.advice}" if refusal.advice else ""
            raise CheckpointError(said + advice) from None
        except _DamagedError as damage:
            raise CheckpointError(f"{path} is damaged: {one_line(str(damage))}") from None
        except (zipfile.BadZipFile, NotImplementedError) as damage:  # unknown methods
            raise CheckpointError(
                f"{path} is damaged or truncated: it is not a whole archive ({reason(damage)})"
            ) from None
    return _load(path, arrays)


def _load(path: Path, arrays: bool) -> Any:
    def refuse(said: str) -> CheckpointError:
        return CheckpointError(f"{path} cannot be loaded as weights: {said}")

    allowed = [argparse.Namespace, *(_numpy_globals() if arrays else ())]
    with parsing(refuse), torch.serialization.safe_globals(allowed):
        return torch.load(path, map_location="cpu", weights_only=True)


def _numpy_globals() -> list[Any]:
    """What a pickled numpy array of numbers is made of; nothing here can run code."""
    reconstruct = np.zeros(1).__reduce__()[0]
    dtypes = {type(np.dtype(name)) for name in ARRAY_TYPES}
    # Files from before numpy 2 name the same function differently.
    return [reconstruct, (reconstruct, "numpy.core.multiarray._reconstruct"), np.ndarray, np.dtype, *dtypes]


def _readable(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error


# ---- the two kinds of file ---------------------------------------------------------------------------------


def _inspect_archive(file: BinaryIO, size: int, arrays: bool) -> None:
    """A zip archive: FOLDER/data.pkl and one member for each storage."""
    file.seek(0)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        names = [member.filename for member in members]
        if len(set(names)) < len(names):
            raise _DamagedError("two members of the archive have the same name")
        if any(name.endswith("constants.pkl") for name in names):
            raise _RefusedError("TorchScript code", TORCHSCRIPT)
        if any(name.endswith("/models/model.json") for name in names):
            raise _RefusedError("a program of torch.export", EXPORTED)
        # torch.save does not compress; a compressed member could unpack to any size.
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise _DamagedError("a member of the archive is compressed, which torch.save never does")
        if sum(member.file_size for member in members) > size:
            raise _DamagedError("its members are larger than the file")
        pickles = [name for name in names if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise _DamagedError("it is a zip archive, but not one of torch.save (it has no data.pkl)")
        broken = archive.testzip()
        if broken is not None:
            raise _DamagedError(f"the checksum of its member {broken} is wrong")
        folder = pickles[0].removesuffix("data.pkl")
        sizes = {member.filename: member.file_size for member in members}

        def storage(key: str, numbers: int, item_size: int) -> None:
            there = sizes.get(f"{folder}data/{key}")
            if there is None or numbers * item_size > there:
                raise _DamagedError(
                    f"a tensor claims {numbers * item_size} bytes, but the file has {there or 0} for it"
                )

        program = io.BytesIO(archive.read(pickles[0]))
        check_pickle(program)
        program.seek(0)
        _Inspector(program, storage, size, arrays).load()


def _inspect_legacy(file: BinaryIO, size: int, arrays: bool) -> None:
    """Pickles in a row (magic number, protocol, system, value, storage keys), then the numbers of each storage."""
    claimed: dict[str, int] = {}
    total = 0

    def storage(key: str, numbers: int, item_size: int) -> None:
        nonlocal total
        total += numbers * item_size - claimed.get(key, 0)
        claimed[key] = numbers * item_size
        if total > size:
            raise _DamagedError(f"its tensors claim {total} bytes, but the file has {size}")

    file.seek(0)
    for _ in range(5):
        begin = file.tell()
        check_pickle(cast(BinaryIO, BoundedFile(file)))
        file.seek(begin)
        _Inspector(file, storage, size, arrays).load()


# ---- the stand-ins -----------------------------------------------------------------------------------------


class _Inspector(pickle.Unpickler):
    """Goes through a pickle. The names in it are looked up in a table of stand-ins, never imported."""

    def __init__(self, file: BinaryIO, storage: Callable[[str, int, int], None], size: int, arrays: bool) -> None:
        super().__init__(file)
        self._storage = storage
        self._size = size
        budget = WorkBudget()
        self._stand_ins = _stand_ins(lambda operand: budget.spend(operand, size), arrays)

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _ITEM_SIZES:
            return _ITEM_SIZES[name]
        if module == "torch" and name in _DTYPES:
            return name
        if (module, name) in (("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_tensor")):
            return self._tensor
        known = self._stand_ins.get((module, name))
        if known is None:
            # A whole model names its classes; a name out of Python's own library is no model.
            whole = module.split(".")[0] not in sys.stdlib_module_names
            raise _RefusedError(f"{module}.{name}", WHOLE_MODEL if whole else "")
        return known

    def persistent_load(self, identifier: Any) -> Any:
        """("storage", type, key, device, numbers[, view]): the only thing that torch.save keeps outside its pickle."""
        if not isinstance(identifier, tuple) or len(identifier) not in (5, 6) or identifier[0] != "storage":
            raise _DamagedError("something other than the numbers of a tensor is kept outside its pickle")
        _, item_size, key, _, numbers = identifier[:5]
        # What stands there may be anything, so none of it is shown: writing it out could take for ever.
        if not isinstance(item_size, int) or not isinstance(numbers, int) or not 0 <= numbers < 1 << 63:
            raise _DamagedError("a tensor's numbers are declared wrongly")
        if not isinstance(key, str):
            raise _DamagedError("the numbers of a tensor are kept under something that is not a name")
        self._storage(key, numbers, item_size)
        return _Storage(numbers, item_size)

    def _tensor(
        self, storage: _Storage, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], *_: object
    ) -> _Shape:
        sizes = (offset, *shape, *stride) if isinstance(shape, tuple) and isinstance(stride, tuple) else (None,)
        plain = all(isinstance(number, int) and 0 <= number < 1 << 63 for number in sizes)
        if not plain or not isinstance(storage, _Storage) or len(shape) != len(stride) or len(shape) > MOST_DIMENSIONS:
            raise _DamagedError("a tensor is declared wrongly")
        last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        if math.prod(shape) and last >= storage.numbers:
            raise _DamagedError(f"a tensor of shape {tuple(shape)} lies outside its {storage.numbers} numbers")
        # A stride of 0 repeats numbers: a small file can hold a tensor of any size.
        if math.prod(shape) * storage.item_size > self._size:
            raise _DamagedError(f"a tensor of shape {tuple(shape)} is larger than the file")
        return _Shape(tuple(shape), storage.item_size)


def _stand_ins(spend: Callable[[Any], None], arrays: bool) -> dict[tuple[str, str], Any]:
    """New ones for each pickle, since a pickle may set attributes of what it names. spend: told every operand."""

    class Namespace:
        """Takes any attributes, and keeps none."""

        def __setstate__(self, state: object) -> None:
            spend(state)

    class Ordered(OrderedDict[Any, Any]):
        """As the real one; what it is made of is bounded."""

        def __init__(self, members: Any = ()) -> None:
            spend(members)
            super().__init__(members)

        def __setstate__(self, state: object) -> None:
            spend(state)

    class Count(Ordered):
        """A dictionary too."""

    def parameter(data: _Shape, *_: object) -> _Shape:
        # Nothing else, such as a tuple, which would be hashed without having been counted.
        if not isinstance(data, _Shape):
            raise _DamagedError("a parameter is declared wrongly")
        return data

    def sizes(given: Any = ()) -> tuple[int, ...]:
        if not isinstance(given, list | tuple) or len(given) > MOST_DIMENSIONS:
            raise _DamagedError("a shape is declared wrongly")
        if not all(isinstance(number, int) for number in given):
            raise _DamagedError("a shape is declared wrongly")
        return tuple(given)

    def members(given: Any = ()) -> set[Any]:
        spend(given)
        return set(given)

    stand_ins: dict[tuple[str, str], Any] = {
        ("collections", "OrderedDict"): Ordered,
        ("collections", "Counter"): Count,
        ("builtins", "set"): members,
        ("__builtin__", "set"): members,
        ("torch", "Size"): sizes,
        ("torch._utils", "_rebuild_parameter"): parameter,
        ("argparse", "Namespace"): Namespace,
    }
    return {**stand_ins, **(_array_stand_ins(spend) if arrays else {})}


def _array_stand_ins(spend: Callable[[Any], None]) -> dict[tuple[str, str], Any]:
    """For numpy's arrays: an empty one is announced, and its state brings shape, type and bytes."""

    class Array:
        """Checks what it is told, and keeps nothing."""

        def __init__(self, kind: object = None, shape: object = (0,), code: object = b"b") -> None:
            if shape != (0,):
                raise _DamagedError("an array is announced with a size")

        def __setstate__(self, state: object) -> None:
            spend(state)

    class Type:
        """The type of an array: a number."""

        def __init__(self, code: object, *_: object) -> None:
            if code not in _ARRAY_CODES:
                raise _RefusedError("a numpy array of something other than numbers")

        def __setstate__(self, state: object) -> None:
            if not isinstance(state, tuple) or len(state) < 5 or any(part is not None for part in state[2:5]):
                raise _RefusedError("a numpy array with fields")

    def encode(text: object, *_: object) -> bytes:
        spend(text)  # Python 3 writes bytes as text and this call up to protocol 2
        return b""

    return {
        **{(f"numpy.{core}.multiarray", "_reconstruct"): Array for core in ("core", "_core")},
        ("numpy", "ndarray"): Array,
        ("numpy", "dtype"): Type,
        ("_codecs", "encode"): encode,
    }
