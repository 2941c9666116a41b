"""The checkpoint reader against bundles that an independent writer makes here, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.errors import CheckpointError
from pipelines.features.audio.musicnn.tensorflow_checkpoint import TensorflowCheckpoint, crc32c
from tests.features.tensorflow_bundle import field, write_bundle


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
