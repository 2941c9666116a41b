"""What a pickle may ask for before it is believed: bounds on everything that a few bytes could make large.

A pickle is a program. A memo index of 2^28 makes Python's own reader allocate 4 GiB; tuples that hold the one before
twice, sixty deep, take 2^60 steps to hash; an integer may have any number of digits. Real files do none of this: their
memo counts up, their tuples are short and flat, their integers fit a machine. `PickleBounds` follows a pickle
instruction by instruction with sizes in place of values, so that nothing is built for the check itself.

Python hashes numbers, and tuples of them, by their values alone, so that a file may hold any number of keys that share
a hash; each is then compared with all before it. Text is hashed with a secret, so nobody can do that with it.
"""

from __future__ import annotations

import pickletools
import sys
from dataclasses import dataclass
from typing import Any, BinaryIO

MOST_BITS = 512  # of an integer
DEEPEST = 64  # tuples in tuples
LARGEST_TUPLE = 10_000  # members, with everything that it holds counted as often as it is reached
MOST_HASHING = 20_000_000  # members of all keys and set members together
MOST_ALIKE = 1_000  # different keys with the same hash
MOST_MADE = 5_000  # keys that are tuples with something that was made by a call, whose hash is not known here
MOST_COLLECTED = 5_000_000  # members of lists that calls make sets and dictionaries of, together
WORK_PER_BYTE, WORK_SLACK = 4, 1 << 20  # members and bytes that calls may go through, for each byte of the pickle
MEMO_SLACK = 1024  # how far a memo index may lie beyond the values that were put so far


class PickleBoundsError(ValueError):
    """The pickle asks for more than any real one does; the message says of what."""


@dataclass(frozen=True)
class _Part:
    """What stands on the stack, as far as hashing goes: lists, dictionaries and objects count as one.

    Numbers stand there as they are.
    """

    members: int = 1
    depth: int = 0
    hashed: int = 0  # of a tuple: the hash that Python has for it
    mark: int = 0  # of a tuple: a hash that nobody can foresee
    made: bool = True  # whether it is or holds something that a call made


_LEAF = _Part()
_Known = _Part | int | float
_MARK = _Part(0, -1)
_TUPLES = frozenset({"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE", "FROZENSET"})
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
# Instructions that put a value there: text, bytes and numbers as their argument, and those that have none.
_VALUES = frozenset({
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
})  # fmt: skip
_CONSTANTS = {"NONE": 2, "NEWTRUE": 1, "NEWFALSE": 0}  # None by any number: it is one value
_HASHED = (int, float, str, bytes, type(None))  # what `_mark` can tell apart
_NUMBERS = frozenset({int, float, bool})
_SIZED = (str, bytes, bytearray, list, dict, set, frozenset)
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})


class _Keys:
    """Keys of dictionaries and members of sets: how many different ones share a hash."""

    def __init__(self) -> None:
        self._marks: dict[int, set[int]] = {}

    def add(self, hashed: int, mark: int) -> None:
        marks = self._marks.get(hashed)
        if marks is None:
            marks = self._marks[hashed] = set()
        marks.add(mark)
        if len(marks) > MOST_ALIKE:
            raise PickleBoundsError(f"more than {MOST_ALIKE:,} different keys with the same hash")


class PickleBounds:
    """To be told every instruction before it is carried out; raises PickleBoundsError."""

    def __init__(self) -> None:
        self._stack: list[_Known] = []
        self._memo: dict[int, _Known] = {}
        self._hashing = 0
        self._keys = _Keys()
        self._made = 0

    def check(self, instruction: Any, argument: Any) -> None:
        """instruction: pickletools' description of it; argument: its decoded argument."""
        name = instruction.name
        if isinstance(argument, int) and argument.bit_length() > MOST_BITS:
            raise PickleBoundsError(f"an integer of {argument.bit_length():,} bits")
        if name in _PUTS:
            if argument > 2 * len(self._memo) + MEMO_SLACK:
                raise PickleBoundsError(f"a memo of {argument:,} values")
            self._memo[argument] = self._top()
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._top()
        elif name in _GETS:
            self._stack.append(self._memo.get(argument, _LEAF))
        elif name == "DUP":
            self._stack.append(self._top())
        elif name == "MARK":
            self._stack.append(_MARK)
        elif name in _VALUES:
            self._stack.append(_leaf(argument))
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        else:
            self._apply(instruction)

    def _apply(self, instruction: Any) -> None:
        """Take what the instruction takes from the stack and put back what it leaves."""
        before = instruction.stack_before
        marked = pickletools.markobject in before
        members = self._since_mark() if marked else []
        single = [self._pop() for part in before if part not in (pickletools.markobject, pickletools.stackslice)]
        name = instruction.name
        if name in ("SETITEMS", "DICT"):
            self._hashed(members[::2])
        elif name == "SETITEM":
            self._hashed(single[1:2])  # popped from the top: value, key, dictionary
        elif name in ("ADDITEMS", "FROZENSET"):
            self._hashed(members)
        if name in _TUPLES:
            self._stack.append(self._tuple(members if marked else single[::-1], name == "FROZENSET"))
        else:
            self._stack += [_LEAF] * len(instruction.stack_after)

    def _tuple(self, members: list[_Known], unordered: bool) -> _Part:
        parts = [member for member in members if isinstance(member, _Part)]
        size = 1 + len(members) - len(parts) + sum(part.members for part in parts)
        depth = 1 + max((part.depth for part in parts), default=0)
        if size > LARGEST_TUPLE:
            raise PickleBoundsError(f"a tuple that unfolds to more than {LARGEST_TUPLE:,} members")
        if depth > DEEPEST:
            raise PickleBoundsError(f"tuples nested more than {DEEPEST} deep")
        hashes = [member.hashed if isinstance(member, _Part) else hash(member) for member in members]
        marks = [member.mark if isinstance(member, _Part) else str(member) for member in members]
        hashed = hash(frozenset(hashes) if unordered else tuple(hashes))
        mark = hash(f"{sorted(marks, key=str) if unordered else marks}")
        return _Part(size, depth, hashed, mark, any(part.made for part in parts))

    def _hashed(self, keys: list[_Known]) -> None:
        for key in keys:
            if isinstance(key, _Part):
                self._hashing += key.members
                if key.depth and key.made:
                    self._made += 1
                elif key.depth:
                    self._keys.add(key.hashed, key.mark)
            else:
                self._hashing += 1
                if isinstance(key, float) or abs(key) >= sys.hash_info.modulus:  # smaller ones are their own hash
                    self._keys.add(hash(key), hash(str(key)))
        if self._hashing > MOST_HASHING:
            raise PickleBoundsError(f"keys of more than {MOST_HASHING:,} members together")
        if self._made > MOST_MADE:
            raise PickleBoundsError(f"more than {MOST_MADE:,} keys that are tuples of objects")

    def _since_mark(self) -> list[_Known]:
        members: list[_Known] = []
        while self._stack:
            part = self._stack.pop()
            if part is _MARK:
                return members[::-1]
            members.append(part)
        return members[::-1]  # a damaged pickle, which whoever reads it will say

    def _pop(self) -> _Known:
        return self._stack.pop() if self._stack else _LEAF

    def _top(self) -> _Known:
        return self._stack[-1] if self._stack else _LEAF


def _leaf(value: Any) -> _Known:
    """A number as it is; for text, a number below the modulus of hashes, so that it counts as its own hash."""
    return value if isinstance(value, int | float) else hash(value) % sys.hash_info.modulus


class WorkBudget:
    """For calls and states: the same text, list or dictionary may be given to any number of them."""

    def __init__(self) -> None:
        self._work = 0  # letters, bytes and members that were gone through
        self._collected = 0
        self._keys = _Keys()
        self._made = 0

    def spend(self, operand: Any, size: int) -> None:
        """operand: what a call or a state was given, tuples member by member; size: bytes of the pickle so far."""
        if isinstance(operand, tuple):
            for part in operand:
                self._spend(part, size)
        else:
            self._spend(operand, size)

    def _spend(self, operand: Any, size: int) -> None:
        if isinstance(operand, _SIZED):
            self._work += len(operand)
            if self._work > WORK_SLACK + WORK_PER_BYTE * size:
                raise PickleBoundsError("the same values again and again")
        if isinstance(operand, list):
            self._collect(operand)

    def _collect(self, members: list[Any]) -> None:
        """Sets and dictionaries are made of lists, and hash what is in them."""
        self._collected += len(members)
        if self._collected > MOST_COLLECTED:
            raise PickleBoundsError(f"sets and dictionaries of more than {MOST_COLLECTED:,} members")
        for member in members:
            key = member[0] if isinstance(member, tuple | list) and len(member) == 2 else member
            if type(key) in _NUMBERS:  # as below, in a third of the time: there may be millions
                self._keys.add(hash(key), hash(str(key)))
                continue
            parts = key if isinstance(key, tuple) else (key,)
            if len(parts) > 16 or any(isinstance(part, tuple | frozenset) for part in parts):
                raise PickleBoundsError("keys that are tuples of tuples, or sets")
            if isinstance(key, str | bytes):
                continue
            if all(isinstance(part, _HASHED) for part in parts):
                self._keys.add(hash(key), hash(",".join(map(_mark, parts))))
            elif isinstance(key, tuple):
                self._made += 1
                if self._made > MOST_MADE:
                    raise PickleBoundsError(f"more than {MOST_MADE:,} keys that are tuples of objects")


def _mark(part: Any) -> str:
    """Text that tells values apart; of long text, its hash."""
    return str(hash(part) if isinstance(part, str | bytes) else part)


def check_pickle(file: BinaryIO) -> None:
    """Go through the pickle that begins here, up to its end. ValueError where it is damaged or beyond the bounds."""
    bounds = PickleBounds()
    for instruction, argument, _ in pickletools.genops(file):
        bounds.check(instruction, argument)
