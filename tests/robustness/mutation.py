"""Damaged and hostile variants of good files, each from a number: the same number gives the same bytes again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_LENGTHS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1)
_TEXTS = (
    b"9" * 5000, b"[" * 3000, b"{" * 3000, b"(" * 500, b"1e999", b"-1", b"nan", b"\x00", b"\x1b[2J", b"\xff\xfe",
    b"null", b"[]", b"{}", b"''", b"(,)", b"\n\n", b"../../x", b"~nobodyx/y", b"\xe2\x80\xae",
)  # fmt: skip


def mutated(seeds: Sequence[bytes], number: int) -> bytes:
    """The input of that number: one of the good files with one to six changes."""
    generator = random.Random(number)
    data = bytearray(generator.choice(seeds))
    for _ in range(generator.choice((1, 1, 1, 2, 3, 6))):
        generator.choice(_CHANGES)(data, generator, seeds)
    return bytes(data)


def _place(data: bytearray, generator: random.Random) -> int:
    # Headers decide most, so half of the changes are made near the beginning.
    end = len(data) if generator.random() < 0.5 else min(len(data), 400)
    return generator.randrange(end) if end else 0


def _flip(data: bytearray, generator: random.Random, _: Sequence[bytes]) -> None:
    if data:
        data[_place(data, generator)] ^= 1 << generator.randrange(8)


def _set(data: bytearray, generator: random.Random, _: Sequence[bytes]) -> None:
    if data:
        data[_place(data, generator)] = generator.choice((0, 1, 0x20, 0x2E, 0x7F, 0x80, 0xFF, generator.randrange(256)))


def _cut(data: bytearray, generator: random.Random, _: Sequence[bytes]) -> None:
    del data[_place(data, generator) :]


def _remove(data: bytearray, generator: random.Random, _: Sequence[bytes]) -> None:
    begin = _place(data, generator)
    del data[begin : begin + generator.choice((1, 2, 8, 100))]


def _repeat(data: bytearray, generator: random.Random, _: Sequence[bytes]) -> None:
    begin = _place(data, generator)
    piece = data[begin : begin + generator.choice((1, 4, 16, 64))]
    data[begin:begin] = piece * generator.choice((1, 2, 50))


def _length(data: bytearray, generator: random.Random, _: Sequence[bytes]) -> None:
    """A number that says how long something is, made large."""
    begin, width = _place(data, generator), generator.choice((1, 2, 4, 8))
    value = generator.choice(_LENGTHS) & ((1 << 8 * width) - 1)
    data[begin : begin + width] = value.to_bytes(width, generator.choice(("little", "big")))


def _text(data: bytearray, generator: random.Random, _: Sequence[bytes]) -> None:
    begin = _place(data, generator)
    data[begin : begin + generator.choice((0, 1, 4))] = generator.choice(_TEXTS)


def _splice(data: bytearray, generator: random.Random, seeds: Sequence[bytes]) -> None:
    """The beginning of one file with the end of another."""
    other = generator.choice(seeds)
    cut = _place(data, generator)
    data[cut:] = other[min(cut, len(other)) :]


_CHANGES: tuple[Callable[[bytearray, random.Random, Sequence[bytes]], None], ...] = (
    *(_flip, _flip, _set, _set, _cut, _remove, _repeat, _length, _length, _text, _text, _splice),
)
