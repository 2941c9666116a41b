"""The checkpoint reader against bundles that an independent writer makes here, byte by byte."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.errors import CheckpointError
from pipelines.features.tensorflow_checkpoint import TensorflowCheckpoint, crc32c

TYPES = {"float32": 1, "float64": 2, "int32": 3, "int64": 9}


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def masked(data: bytes) -> bytes:
    """The checksum of a block or tensor as TensorFlow stores it, here with a bitwise CRC."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def block(records: list[tuple[bytes, bytes]], compression: int = 0) -> bytes:
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
    return data + bytes([compression]) + masked(data + bytes([compression]))


def write_bundle(tensors: dict[str, NDArray], header: bytes = field(1, 1), compression: int = 0) -> tuple[bytes, bytes]:
    """The index and the one data file of a checkpoint; at most four tensors per block."""
    data, records = b"", [(b"", header)]
    for name in sorted(tensors):
        value = tensors[name]
        content = value.tobytes()
        shape = b"".join(field(2, field(1, size)) for size in value.shape)
        entry = field(1, TYPES[value.dtype.name]) + field(2, shape)
        entry += field(4, len(data)) if data else b""  # protocol buffers leave zeros out
        entry += field(5, len(content)) + varint(6 << 3 | 5) + masked(content)
        records.append((name.encode(), entry))
        data += content
    table, handles = b"", []
    for begin in range(0, len(records), 4):
        part = records[begin : begin + 4]
        written = block(part, compression)
        handles.append((part[-1][0], varint(len(table)) + varint(len(written) - 5)))
        table += written
    meta, index = block([]), block(handles)
    footer = varint(len(table)) + varint(len(meta) - 5) + varint(len(table) + len(meta)) + varint(len(index) - 5)
    return table + meta + index + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57), data


@pytest.fixture
def tensors() -> dict[str, NDArray]:
    generator = np.random.default_rng(0)
    return {
        "1CNN/bias": generator.standard_normal(128).astype(np.float32),
        "1CNN/kernel": generator.standard_normal((3, 3, 1, 128)).astype(np.float32),
        "1CNN/kernel/Adam": generator.standard_normal((3, 3, 1, 128)).astype(np.float32),
        "2CNN/bias": generator.standard_normal(7),
        "global_step": np.array(123456, np.int64),
        "steps": np.arange(5, dtype=np.int32),
    }


def read(index: bytes, data: bytes) -> TensorflowCheckpoint:
    return TensorflowCheckpoint(index, {0: data}.__getitem__)


def test_every_tensor_comes_back(tensors: dict[str, NDArray]) -> None:
    checkpoint = read(*write_bundle(tensors))
    assert list(checkpoint.entries) == sorted(tensors)
    for name, value in tensors.items():
        np.testing.assert_array_equal(checkpoint.tensor(name), value, strict=True)


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_damage_is_found(tensors: dict[str, NDArray]) -> None:
    index, data = write_bundle(tensors)
    for position in (5, len(index) // 2, len(index) - 3):
        with pytest.raises(CheckpointError, match="damaged"):
            read(index[:position] + bytes([index[position] ^ 1]) + index[position + 1 :], data)
    for broken in (b"", index[:-20], index[20:], b"\0" * 100):
        with pytest.raises(CheckpointError, match="not a TensorFlow checkpoint index"):
            read(broken, data)
    with pytest.raises(CheckpointError, match="checksum of tensor '1CNN/bias'"):
        read(index, b"\1" + data[1:]).tensor("1CNN/bias")
    with pytest.raises(CheckpointError, match="checksum of tensor 'steps'"):
        read(index, data[:-1]).tensor("steps")


def test_what_is_not_supported_says_so(tensors: dict[str, NDArray]) -> None:
    with pytest.raises(CheckpointError, match="compressed"):
        read(*write_bundle(tensors, compression=1))
    with pytest.raises(CheckpointError, match="big-endian"):
        read(*write_bundle(tensors, header=field(1, 1) + field(2, 1)))
    with pytest.raises(CheckpointError, match="no tensor 'absent'"):
        read(*write_bundle(tensors)).tensor("absent")
