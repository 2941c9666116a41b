"""Reading other people's pickles without running anything in them.

A pickle is a program for a small stack machine. This one knows the instructions that build numbers, strings,
plain containers, numpy arrays and `argparse.Namespace`; a file that asks for anything else is refused with
the name of what it asked for. No callable of the file's choosing is ever looked up, so there is nothing to be
tricked into calling.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CotransError, InputError
from pipelines.untrusted.bounded_file import BoundedFile, UnreadableError, opened
from pipelines.untrusted.pickle_bounds import PickleBounds, WorkBudget
from pipelines.untrusted.pickled_globals import (
    KNOWN_GLOBALS,
    Pending,
    RefusedError,
    RefusedNameError,
    build,
    call,
    make,
)

Array = NDArray[Any]

READS = "only numpy arrays, plain containers and argparse.Namespace are read, and nothing in the file was run"


def load_pickle(
    source: Path | BinaryIO,
    *,
    name: str | None = None,
    error: type[CotransError] = InputError,
    keep: Callable[[Array], Array] | None = None,
) -> Any:
    """The value in a pickle file.

    `keep` sees every array as soon as it is complete and returns what stands in its place: writing it to disk
    and returning a memory map reads a file that is larger than memory. Arrays are read-only. `name` stands in
    error messages (default: the path), `error` is what is raised; its cause is a RefusedError where the file asks
    for something that is not read.
    """
    label = name or (str(source) if isinstance(source, Path) else "the pickle")
    try:
        with opened(source) as file:
            return _Machine(BoundedFile(file), keep).run()
    except RefusedError as refusal:
        raise error(f"{label}: refused: the pickle asks for {refusal}; {READS}") from refusal
    except UnreadableError as problem:
        raise error(f"{label}: cannot be read: {problem}") from problem
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, EOFError, OverflowError) as problem:
        # What a stack machine meets in a damaged program: missing operands, bad text, wrong types, no end.
        raise error(f"{label}: not a pickle, or a damaged one ({_reason(problem)})") from problem
    except (MemoryError, RecursionError) as problem:
        raise error(f"{label}: the pickle needs more memory than there is ({type(problem).__name__})") from problem


def _reason(problem: BaseException) -> str:
    text = " ".join(str(problem).split()) or type(problem).__name__
    return text if len(text) <= 120 else text[:117] + "..."


class _Mark:
    """Where an open container begins on the stack."""


@dataclass(frozen=True)
class _Released:
    """Stands in the memo for the raw bytes of an array that has been built."""


_MARK = _Mark()
_RELEASED = _Released()
_RAW = (bytes, bytearray, str)
_SHARED_BELOW = 1024  # bytes: short strings are shared between values, so the memo must keep them
# Instructions whose decoded argument is the value itself.
_NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT")
_TEXTS = ("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE")
_BYTES = ("BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8")
_LITERALS = frozenset((*_NUMBERS, *_TEXTS, *_BYTES))
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": set}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_REFUSED_INSTRUCTIONS = {
    "INST": "an instance of an old-style class",
    "OBJ": "an instance of an old-style class",
    "NEWOBJ_EX": "an object with keyword arguments",
    "PERSID": "an object outside the file (persistent id)",
    "BINPERSID": "an object outside the file (persistent id)",
    "EXT1": "an object of the extension registry",
    "EXT2": "an object of the extension registry",
    "EXT4": "an object of the extension registry",
    "NEXT_BUFFER": "a buffer outside the file",
    "READONLY_BUFFER": "a buffer outside the file",
}


class _Machine:
    """The stack machine: one method for each group of instructions."""

    def __init__(self, file: BoundedFile, keep: Callable[[Array], Array] | None) -> None:
        self.file = file
        self.keep = keep
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.bounds = PickleBounds()
        self.budget = WorkBudget()

    def run(self) -> Any:
        for instruction, argument, _position in pickletools.genops(self.file):  # type: ignore[arg-type]
            name = instruction.name
            if name == "STOP":
                return self._finished()
            self.bounds.check(instruction, argument)
            self._execute(name, argument)
        raise EOFError("it ends in the middle")

    def _finished(self) -> Any:
        value = self._resolve(self.stack.pop())
        if self.stack:
            raise ValueError(f"{len(self.stack)} values are left over at the end")
        if isinstance(value, _Mark | Pending):
            raise ValueError("it ends in the middle of a value")
        return value

    def _execute(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in ("PROTO", "FRAME"):
            pass
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self._recall(argument))
        elif name in _TUPLES:
            count = _TUPLES[name]
            if len(stack) < count:
                raise ValueError("a tuple lacks its members")
            stack[-count:] = [tuple(stack[-count:])]
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            stack.append(self._global(argument))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments = stack.pop()
            self.budget.spend(arguments, self.file.tell())
            called = call if name == "REDUCE" else make
            self._replace_top(called(stack[-1], arguments), arguments)
        elif name == "BUILD":
            state = stack.pop()
            self.budget.spend(state, self.file.tell())
            self._replace_top(build(stack[-1], state), state)
        elif name in _REFUSED_INSTRUCTIONS:
            detail = f" ({' '.join(map(str, argument.split()))})" if isinstance(argument, str) else ""
            raise RefusedError(_REFUSED_INSTRUCTIONS[name] + detail)
        else:
            self._container(name)

    def _container(self, name: str) -> None:
        stack = self.stack
        if name == "POP":
            stack.pop()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name == "POP_MARK":
            self._since_mark()
        elif name == "TUPLE":
            stack.append(tuple(self._since_mark()))
        elif name == "LIST":
            stack.append(self._since_mark())
        elif name == "DICT":
            stack.append(_pairs(self._since_mark()))
        elif name == "FROZENSET":
            stack.append(frozenset(self._since_mark()))
        elif name in ("APPEND", "APPENDS"):
            members = [stack.pop()] if name == "APPEND" else self._since_mark()
            _expect(stack[-1], list).extend(members)
        elif name in ("SETITEM", "SETITEMS"):
            if name == "SETITEM":
                value, key = stack.pop(), stack.pop()
                members = [key, value]
            else:
                members = self._since_mark()
            _expect(stack[-1], dict).update(_pairs(members))
        elif name == "ADDITEMS":
            members = self._since_mark()
            _expect(stack[-1], set).update(members)
        else:
            raise RefusedError(f"the instruction {name}")

    def _since_mark(self) -> list[Any]:
        """Take everything above the last mark, and the mark, from the stack."""
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                members = self.stack[index + 1 :]
                del self.stack[index:]
                return members
        raise ValueError("a container ends that never began")

    def _global(self, argument: str | None) -> Any:
        if argument is None:
            name, module = self.stack.pop(), self.stack.pop()
        else:
            module, _, name = argument.partition(" ")
        if not isinstance(module, str) or not isinstance(name, str):
            raise ValueError("a name that is not text")
        known = KNOWN_GLOBALS.get((module, name))
        if known is None:
            raise RefusedNameError(repr(f"{module}.{name}"[:100]))  # a name may hold anything, line ends too
        return known

    def _replace_top(self, value: Any, operand: Any) -> None:
        """Put `value` on the stack; a finished array goes through `keep`, and its raw bytes are let go."""
        if isinstance(value, np.ndarray) and not isinstance(value, np.memmap):
            if self.keep is not None:
                value = self.keep(value)
            self._release(operand)
        elif isinstance(value, bytes):
            self._release(operand)  # Python 3 writes bytes as text and a call of encode up to protocol 2
        pending = self.stack[-1]
        if isinstance(pending, Pending) and not isinstance(value, Pending):
            pending.value = value
        self.stack[-1] = value

    def _release(self, operand: Any) -> None:
        """Forget the raw bytes of a finished array: the memo would keep those of every array in the file."""
        raw = {id(part) for part in operand if isinstance(part, _RAW) and len(part) >= _SHARED_BELOW}
        if not raw:
            return
        # The pickler memoises raw bytes and the tuple around them just before it builds the array.
        for key in list(islice(reversed(self.memo), 6)):
            if id(self.memo[key]) in raw or self.memo[key] is operand:
                self.memo[key] = _RELEASED

    def _recall(self, index: int) -> Any:
        if index not in self.memo:
            raise ValueError(f"value {index} is used before it was made")
        value = self._resolve(self.memo[index])
        if value is _RELEASED:
            raise ValueError("the bytes of an array are used twice")
        return value

    @staticmethod
    def _resolve(value: Any) -> Any:
        return value.value if isinstance(value, Pending) and value.value is not None else value


def _pairs(members: list[Any]) -> dict[Any, Any]:
    if len(members) % 2:
        raise ValueError("a dictionary with a key and no value")
    return dict(zip(members[::2], members[1::2], strict=True))


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"a {kind.__name__} was expected, not {type(value).__name__}")
    return value
