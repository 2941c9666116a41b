"""What a pickle may ask for before it is believed: bounds on everything that a few bytes could make large.

A pickle is a program. A memo index of 2^28 makes Python's own reader allocate 4 GiB; tuples that hold the one before
twice, sixty deep, take 2^60 steps to hash; an integer may have any number of digits. Real files do none of this: their
memo counts up, their tuples are short and flat, their integers fit a machine. `PickleBounds` follows a pickle
instruction by instruction with sizes in place of values, so that nothing is built for the check itself.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass
from typing import Any, BinaryIO

MOST_BITS = 512  # of an integer
DEEPEST = 64  # tuples in tuples
LARGEST_TUPLE = 10_000  # members, with everything that it holds counted as often as it is reached
MOST_HASHING = 20_000_000  # members of all keys and set members together
MOST_COLLECTED = 5_000_000  # members of lists that calls make sets and dictionaries of, together
WORK_PER_BYTE, WORK_SLACK = 4, 1 << 20  # members and bytes that calls may go through, for each byte of the pickle
MEMO_SLACK = 1024  # how far a memo index may lie beyond the values that were put so far


class PickleBoundsError(ValueError):
    """The pickle asks for more than any real one does; the message says of what."""


@dataclass(frozen=True)
class _Part:
    """What stands on the stack, as far as hashing goes: lists, dictionaries and objects count as one."""

    members: int = 1
    depth: int = 0


_LEAF = _Part()
_MARK = _Part(0, -1)
_TUPLES = frozenset({"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "FROZENSET"})
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_SIZED = (str, bytes, bytearray, list, dict, set, frozenset)
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})


class PickleBounds:
    """To be told every instruction before it is carried out; raises PickleBoundsError."""

    def __init__(self) -> None:
        self._stack: list[_Part] = []
        self._memo: dict[int, _Part] = {}
        self._hashing = 0

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
            self._stack.append(self._tuple(members if marked else single))
        else:
            self._stack += [_LEAF] * len(instruction.stack_after)

    def _tuple(self, members: list[_Part]) -> _Part:
        part = _Part(1 + sum(member.members for member in members), 1 + max((m.depth for m in members), default=0))
        if part.members > LARGEST_TUPLE:
            raise PickleBoundsError(f"a tuple that unfolds to more than {LARGEST_TUPLE:,} members")
        if part.depth > DEEPEST:
            raise PickleBoundsError(f"tuples nested more than {DEEPEST} deep")
        return part

    def _hashed(self, keys: list[_Part]) -> None:
        self._hashing += sum(key.members for key in keys)
        if self._hashing > MOST_HASHING:
            raise PickleBoundsError(f"keys of more than {MOST_HASHING:,} members together")

    def _since_mark(self) -> list[_Part]:
        members: list[_Part] = []
        while self._stack:
            part = self._stack.pop()
            if part is _MARK:
                return members[::-1]
            members.append(part)
        return members[::-1]  # a damaged pickle, which whoever reads it will say

    def _pop(self) -> _Part:
        return self._stack.pop() if self._stack else _LEAF

    def _top(self) -> _Part:
        return self._stack[-1] if self._stack else _LEAF


class WorkBudget:
    """For calls and states: the same text, list or dictionary may be given to any number of them."""

    def __init__(self) -> None:
        self._work = 0  # letters, bytes and members that were gone through
        self._collected = 0

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
            if isinstance(key, tuple) and (len(key) > 16 or any(isinstance(part, tuple) for part in key)):
                raise PickleBoundsError("keys that are tuples of tuples")


def check_pickle(file: BinaryIO) -> None:
    """Go through the pickle that begins here, up to its end. ValueError where it is damaged or beyond the bounds."""
    bounds = PickleBounds()
    for instruction, argument, _ in pickletools.genops(file):
        bounds.check(instruction, argument)
