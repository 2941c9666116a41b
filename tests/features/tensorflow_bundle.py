"""Writes TensorFlow checkpoints for tests, byte by byte and independently of the reader."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Checksum = Callable[[bytes], bytes]
TYPES = {"float32": 1, "float64": 2, "int32": 3, "int64": 9}


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


HEADER = field(1, 1)  # one data file


def masked(data: bytes) -> bytes:
    """The checksum of a block or tensor as TensorFlow stores it, here with a bitwise CRC."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def block(records: list[tuple[bytes, bytes]], checksum: Checksum, compression: int = 0) -> bytes:
    """Keys share their beginning with the one before, except at every third record."""
    data, restarts, before = b"", [], b""
    for position, (key, value) in enumerate(records):
        shared = 0
        if position % 3 == 0:
            restarts.append(len(data))
        else:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        data += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    data += b"".join(struct.pack("<I", offset) for offset in restarts) + struct.pack("<I", len(restarts))
    return data + bytes([compression]) + checksum(data + bytes([compression]))


def write_bundle(
    tensors: dict[str, NDArray[np.generic]],
    header: bytes = HEADER,
    compression: int = 0,
    checksum: Checksum = masked,
) -> tuple[bytes, bytes]:
    """The index and the one data file of a checkpoint; at most four tensors per block."""
    data, records = b"", [(b"", header)]
    for name in sorted(tensors):
        value = tensors[name]
        content = value.tobytes()
        shape = b"".join(field(2, field(1, size)) for size in value.shape)
        entry = field(1, TYPES[value.dtype.name]) + field(2, shape)
        entry += field(4, len(data)) if data else b""  # protocol buffers leave zeros out
        entry += field(5, len(content)) + varint(6 << 3 | 5) + checksum(content)
        records.append((name.encode(), entry))
        data += content
    table, handles = b"", []
    for begin in range(0, len(records), 4):
        part = records[begin : begin + 4]
        written = block(part, checksum, compression)
        handles.append((part[-1][0], varint(len(table)) + varint(len(written) - 5)))
        table += written
    meta, index = block([], checksum), block(handles, checksum)
    footer = varint(len(table)) + varint(len(meta) - 5) + varint(len(table) + len(meta)) + varint(len(index) - 5)
    return table + meta + index + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57), data
