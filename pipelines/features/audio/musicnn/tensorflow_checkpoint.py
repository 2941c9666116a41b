"""Reads TensorFlow checkpoints (the "tensor bundle", version 2 of the format) without TensorFlow.

A bundle is one index file and one or more data files. The index is a sorted string table, as in LevelDB: blocks
of prefix-compressed keys, an index block that points at them and a fixed footer. Its values are protocol buffers:
a header under the empty key, and per tensor its type, shape, data file, offset, size and checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CheckpointError
from pipelines.untrusted.parsing import parsing

FOOTER_BYTES = 48  # two block handles, padded to 40 bytes, and the magic number
TABLE_MAGIC = 0xDB4775248B80FB57
BLOCK_TRAILER_BYTES = 5  # one byte compression type, four bytes checksum
NO_COMPRESSION = 0
LONGEST_VARINT = 63  # bits before the last byte of a number
MOST_DIMENSIONS = 16

# Numbers of tensorflow's DataType for which numpy has a type of the same layout.
DATA_TYPES: Mapping[int, str] = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "|u1", 5: "<i2", 6: "|i1",
    9: "<i8", 10: "|b1", 17: "<u2", 19: "<f2", 22: "<u4", 23: "<u8",
}  # fmt: skip


@dataclass(frozen=True)
class TensorEntry:
    """Where one tensor of a bundle lies."""

    dtype: str  # numpy's name, little endian
    shape: tuple[int, ...]
    shard: int
    offset: int  # bytes
    size: int  # bytes
    checksum: int  # masked CRC-32C of the bytes


class TensorflowCheckpoint:
    """The tensors of one bundle by name.

    `index` is the content of `PREFIX.index`, `read_shard(k)` gives that of `PREFIX.data-0000k-of-0000n`.
    """

    def __init__(self, index: bytes, read_shard: Callable[[int], bytes]) -> None:
        with parsing(lambda why: CheckpointError(f"not a TensorFlow checkpoint index, or a damaged one: {why}")):
            self.entries = _read_index(index)
        self._read_shard = read_shard
        self._shards: dict[int, bytes] = {}

    def tensor(self, name: str) -> NDArray[Any]:
        """A copy of the tensor `name`, its checksum verified."""
        if name not in self.entries:
            raise CheckpointError(f"the TensorFlow checkpoint has no tensor '{name}'")
        entry = self.entries[name]
        if entry.shard not in self._shards:
            self._shards[entry.shard] = self._read_shard(entry.shard)
        data = self._shards[entry.shard][entry.offset : entry.offset + entry.size]
        if len(data) != entry.size or masked_crc32c(data) != entry.checksum:
            raise CheckpointError(f"the TensorFlow checkpoint is damaged: checksum of tensor '{name}'")
        if prod(entry.shape) * np.dtype(entry.dtype).itemsize != entry.size:
            raise CheckpointError(f"the TensorFlow checkpoint is damaged: size of tensor '{name}'")
        with parsing(lambda why: CheckpointError(f"the TensorFlow checkpoint is damaged: tensor '{name}': {why}")):
            return np.frombuffer(data, dtype=entry.dtype).reshape(entry.shape).copy()


def _read_index(index: bytes) -> dict[str, TensorEntry]:
    if len(index) < FOOTER_BYTES or struct.unpack("<Q", index[-8:])[0] != TABLE_MAGIC:
        raise ValueError("the file does not end with the magic number of a table")
    position = len(index) - FOOTER_BYTES
    for _ in range(2):  # offset and size of the meta index block, which is empty
        _, position = _varint(index, position)
    offset, position = _varint(index, position)
    size, position = _varint(index, position)
    entries: dict[str, TensorEntry] = {}
    for _, handle in _block(index, offset, size):
        block_offset, after = _varint(handle, 0)
        block_size, _ = _varint(handle, after)
        for key, value in _block(index, block_offset, block_size):
            if key:
                entries[key.decode()] = _entry(value)
            else:
                _check_header(value)
    return entries


def _block(data: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of every record of one block, in order."""
    block = data[offset : offset + size]
    trailer = data[offset + size : offset + size + BLOCK_TRAILER_BYTES]
    if len(trailer) < BLOCK_TRAILER_BYTES:
        raise ValueError("a block reaches past the end of the file")
    if struct.unpack("<I", trailer[1:])[0] != masked_crc32c(block + trailer[:1]):
        raise ValueError("the checksum of a block is wrong")
    if trailer[0] != NO_COMPRESSION:
        raise ValueError("its blocks are compressed, which TensorFlow never does for checkpoints")
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * (restarts + 1)
    position, key = 0, b""
    while position < end:
        shared, position = _varint(block, position)
        unshared, position = _varint(block, position)
        length, position = _varint(block, position)
        key = key[:shared] + block[position : position + unshared]
        position += unshared
        yield key, block[position : position + length]
        position += length


def _check_header(value: bytes) -> None:
    """BundleHeaderProto: number of shards (1), endianness (2; 0 is little), version (3)."""
    if dict(_fields(value)).get(2, 0) != 0:
        raise ValueError("it was written on a big-endian machine")


def _entry(value: bytes) -> TensorEntry:
    """BundleEntryProto: dtype (1), shape (2), shard_id (3), offset (4), size (5), crc32c (6), slices (7)."""
    fields = dict(_fields(value))
    if 7 in fields:
        raise ValueError("it holds partitioned tensors, which are not supported")
    number = fields.get(1, 0)
    if number not in DATA_TYPES:
        raise ValueError(f"it holds tensors of TensorFlow's type {number}, which are not supported")
    return TensorEntry(
        dtype=DATA_TYPES[number],
        shape=_shape(fields.get(2, b"")),
        shard=fields.get(3, 0),
        offset=fields.get(4, 0),
        size=fields.get(5, 0),
        checksum=fields.get(6, 0),
    )


def _shape(value: bytes) -> tuple[int, ...]:
    """TensorShapeProto: repeated dim (2), each a message with size (1)."""
    dimensions = [dimension for number, dimension in _fields(value) if number == 2]
    if len(dimensions) > MOST_DIMENSIONS:
        raise ValueError(f"a tensor of {len(dimensions)} dimensions")
    return tuple(dict(_fields(dimension)).get(1, 0) for dimension in dimensions)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Field number and value of a protocol buffer: integers, or bytes for what has a length."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        wire = tag & 7
        value: Any
        if wire == 0:
            value, position = _varint(message, position)
        elif wire == 1:
            (value,) = struct.unpack_from("<Q", message, position)
            position += 8
        elif wire == 2:
            length, position = _varint(message, position)
            value = message[position : position + length]
            position += length
        elif wire == 5:
            (value,) = struct.unpack_from("<I", message, position)
            position += 4
        else:
            raise ValueError(f"a protocol buffer has the unknown wire type {wire}")
        yield tag >> 3, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, seven bits per byte, low bits first, and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > LONGEST_VARINT:
            raise ValueError("a number of more than 64 bits")


def _crc32c_table() -> tuple[int, ...]:
    """CRC-32C (Castagnoli): the reflected polynomial is 0x82F63B78."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC_TABLE = _crc32c_table()


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC_TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """LevelDB's masking: a checksum of data that holds checksums itself stays a good one."""
    value = crc32c(data)
    return (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF
