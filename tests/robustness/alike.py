"""Pickles whose keys are different and share a hash: each is compared with all before it, which never ends."""

from __future__ import annotations

import struct
import sys

MODULUS = sys.hash_info.modulus
BITS = MODULUS.bit_length()
# Python's hash of a tuple, of which every step can be undone.
FIRST, SECOND, FIFTH = 11400714785074694791, 14029467366897019727, 2870177450012600261
WORD = (1 << 64) - 1


def integers(count: int) -> bytes:
    """A dictionary of multiples of the modulus, all of which hash to 0."""
    program = [b"\x80\x02}("]
    for number in range(1, count + 1):
        digits = (number * MODULUS).to_bytes(12, "little", signed=True)
        program.append(b"\x8a\x0c" + digits + b"N")
    return b"".join(program) + b"u."


def pairs(count: int) -> bytes:
    """A dictionary of pairs (integer, float), each float such that the pair has the hash of all others."""
    program, number, written = [b"\x80\x02}("], 0, 0
    undone = pow(SECOND, -1, 1 << 64)
    while written < count:
        number += 1
        state = FIFTH + number * SECOND & WORD
        state = (state << 31 | state >> 33) & WORD
        value = _float_of((-state * FIRST) * undone & WORD)
        if value is not None:
            program.append(b"J" + struct.pack("<i", number) + b"G" + struct.pack(">d", value) + b"\x86N")
            written += 1
    return b"".join(program) + b"u."


def _float_of(hashed: int) -> float | None:
    """A float with this hash, if there is any: 53 bits, turned around among those of the modulus."""
    if hashed >= MODULUS:
        return None
    for turn in range(BITS):
        digits = (hashed >> turn | hashed << (BITS - turn)) & MODULUS
        if 0 < digits < 1 << 53:
            return float(digits) * 2.0**turn
    return None


def nested_sets(depth: int = 50) -> bytes:
    """Two equal sets of sets, made by calls, whose comparison takes 2^depth steps, as keys of a dictionary."""
    program = b"\x80\x02cbuiltins\nfrozenset\nq\xff0"
    for side in (b"\x01", b"\x02"):
        program += b"h\xff](K\x07e\x85Rq" + side + b"0"
        for _ in range(depth):
            for number, place in ((b"\x01", b"\x10"), (b"\x02", b"\x11")):
                program += b"h\xff](h" + side + b"K" + number + b"e\x85Rq" + place + b"0"
            program += b"h\xff](h\x10h\x11e\x85Rq" + side + b"0"
    return program + b"}(h\x01Nh\x02Nu."


def nested_shapes(depth: int = 60) -> bytes:
    """Shapes of shapes, which are tuples that no instruction for tuples made."""
    program = b"\x80\x02ctorch\nSize\nq\xff]\x85R"
    for number in range(depth):
        program += b"q" + bytes([number]) + b"0h\xff](h" + bytes([number]) + b"h" + bytes([number]) + b"e\x85R"
    return program + b"q\xf0}h\xf0Ns."


def nested_parameters(depth: int = 60) -> bytes:
    """Pairs of the one before that a call hands back as they are, so that they would not be counted."""
    program = b"\x80\x02ctorch._utils\n_rebuild_parameter\nq\xff)"
    for number in range(depth):
        program += b"q" + bytes([number]) + b"0h\xffh" + bytes([number]) + b"h" + bytes([number]) + b"\x86\x85R"
    return program + b"q\xf0}h\xf0Ns."


def complex_numbers(count: int) -> bytes:
    """numpy's complex numbers a + ib with a = -1000003 b, which hash to 0."""
    program = [b"\x80\x02cnumpy.core.multiarray\nscalar\nq\x000cnumpy\ndtype\n(X\x03\x00\x00\x00c16\x89\x88tR"]
    program.append(b"(K\x03X\x01\x00\x00\x00<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tbq\x010}(")
    program += [
        b"h\x00h\x01C\x10" + struct.pack("<dd", -1000003.0 * number, float(number)) + b"\x86RN"
        for number in range(1, count + 1)
    ]
    return b"".join(program) + b"u."
