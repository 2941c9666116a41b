"""Pickles in archives that cannot be read."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.rows.pickle_cache import PickleFile
from pipelines.errors import InputError

MEMBER = "features.pickle"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "features.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(MEMBER, pickle.dumps({"video": {"rgb": np.ones((2, 3), np.float32)}}))
    return path


def test_a_member_is_read(archive: Path) -> None:
    assert PickleFile(archive, MEMBER).load(lambda array: array)["video"]["rgb"].sum() == 6


def test_an_encrypted_member_is_one_line(archive: Path) -> None:
    content = bytearray(archive.read_bytes())
    central = content.index(b"PK\x01\x02")
    content[6] |= 1  # bit 0 of the flags: encrypted; in the member's own header and in the directory
    content[central + 8] |= 1
    archive.write_bytes(content)
    with pytest.raises(InputError, match=r"features\.zip, features\.pickle: encrypted; unpack the archive"):
        PickleFile(archive, MEMBER).load(lambda array: array)


def test_a_compression_that_python_lacks_is_not_called_encrypted(archive: Path) -> None:
    content = bytearray(archive.read_bytes())
    central = content.index(b"PK\x01\x02")
    content[8] = content[central + 10] = 9  # Deflate64
    archive.write_bytes(content)
    with pytest.raises(InputError, match=r"features\.pickle: cannot be read .*; unpack the archive"):
        PickleFile(archive, MEMBER).load(lambda array: array)


def test_a_missing_member_and_a_damaged_archive_are_one_line(archive: Path) -> None:
    with pytest.raises(InputError, match="other: cannot be read"):
        PickleFile(archive, "other").load(lambda array: array)
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(InputError, match="not a readable zip archive"):
        PickleFile(archive, MEMBER).load(lambda array: array)
