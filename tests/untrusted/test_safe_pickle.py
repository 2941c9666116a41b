"""Pickles of other projects are read; pickles that want to run something are not."""

from __future__ import annotations

import argparse
import functools
import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import CheckpointError, InputError
from pipelines.untrusted.safe_pickle import load_pickle

RANDOM = np.random.default_rng(0)
SHARED_ARRAY = np.ones(3)
VALUE: dict[str, Any] = {
    "video": {
        "rgb": RANDOM.random((5, 3)).astype(np.float32),
        "flow": np.asfortranarray(RANDOM.random((4, 300))),
        "big endian": np.arange(3, dtype=">i4"),
        "text": np.array(["x", "yy"]),
        "bytes": np.array([b"ab", b"c"]),
        "bool": np.array([True, False]),
        "complex": np.array([1 + 2j]),
        "empty": np.zeros((0, 4)),
        "scalar": np.float64(3.5),
        "zero-dimensional": np.array(7),
    },
    "ordered": OrderedDict(b=1, a=2),
    "set": {1, 2},
    "frozen": frozenset([3]),
    "bytearray": bytearray(b"x" * 10),
    "bytes": b"xy\xff",
    "no bytes": b"",
    "args": argparse.Namespace(enc_layers=64, sizes=[1, (2, 3, 4, 5)]),
    "numbers": [None, True, False, 1.5, 10**30, -1, 256, 2**31],
    "shared": [SHARED_ARRAY, SHARED_ARRAY],
}


def read(data: bytes) -> Any:
    return load_pickle(io.BytesIO(data))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_comes_back_the_same_in_every_protocol(protocol: int) -> None:
    value = read(pickle.dumps(VALUE, protocol=protocol))
    for name, expected in VALUE["video"].items():
        array = value["video"][name]
        assert np.array_equal(array, expected), name
        assert np.asarray(array).dtype == np.asarray(expected).dtype, name
    for name in ("ordered", "set", "frozen", "bytearray", "bytes", "no bytes", "args", "numbers"):
        assert value[name] == VALUE[name] and type(value[name]) is type(VALUE[name]), name
    assert value["shared"][0] is value["shared"][1]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_of_old_and_new_numpy_are_known(protocol: int) -> None:
    data = pickle.dumps({"a": np.arange(6.0).reshape(2, 3)}, protocol=protocol)
    if protocol <= 3:  # names end with a line there, so their length may change
        old, new = (data.replace(b"numpy._core", b"numpy.core"), data.replace(b"numpy.core", b"numpy._core"))
        for variant in (old, new):
            assert np.array_equal(read(variant)["a"], np.arange(6.0).reshape(2, 3))
    assert np.array_equal(read(data)["a"], np.arange(6.0).reshape(2, 3))


def test_an_array_that_python_2_wrote() -> None:
    raw = np.array([1.5, -2.25]).tobytes()
    data = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87R"
        b"(K\x01K\x02\x85cnumpy\ndtype\nU\x02f8K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89U" + bytes([len(raw)]) + raw + b"tb."
    )
    assert read(data).tolist() == [1.5, -2.25]


class Call:
    """Pickles as a call of `function`."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


class Plain:
    pass


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Call(os.system, "touch MARKER"), "system'"),
        (Call(eval, "open('MARKER', 'w')"), "eval'"),
        (Call(np.load, "MARKER", None, True), "numpy"),
        (Call(functools.partial, len), "functools.partial'"),
        (Call(getattr, "text", "format"), "getattr'"),
        (Plain(), "Plain'"),
        (np.array([{}], dtype=object), "Python objects"),
        (np.zeros(2, dtype=[("a", "f4")]), "a numpy array of type"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "a numpy array of type"),
        (Path("x"), "Path'"),
    ],
)
def test_a_pickle_that_wants_more_is_refused_by_name(
    value: Any, named: str, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "features.pickle").write_bytes(pickle.dumps({"video": [np.ones(2), value]}, protocol=protocol))
    with pytest.raises(InputError) as caught:
        load_pickle(tmp_path / "features.pickle")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'features.pickle'}: refused: the pickle asks for ")
    assert named in message and "\n" not in message
    assert not (tmp_path / "MARKER").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"(S'touch MARKER'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'touch MARKER'\no.",  # OBJ
        b"\x80\x02\x82\x01.",  # EXT1
        b"Pid\n.",  # PERSID
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0ctouch MARKER\x85R.",  # STACK_GLOBAL
        b"\x80\x04\x8c\x03o\ns\x8c\x01s\x93.",  # a name with a line end
        b"\x80\x02cargparse\nNamespace\n)\x81}X\x09\x00\x00\x00__class__K\x01sb.",  # attributes of the interpreter
        b"\x80\x02cbuiltins\nset\nK\x01\x85R.",  # a call that plain data does not have
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.",
    ],
)
def test_instructions_that_plain_data_does_not_need_are_refused(
    data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="refused: the pickle asks for") as caught:
        read(data)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "MARKER").exists()


def test_every_cut_is_an_error_and_not_a_crash() -> None:
    data = pickle.dumps(VALUE, protocol=4)
    for length in range(0, len(data) - 1, 7):
        with pytest.raises(InputError, match=r"damaged|refused"):
            read(data[:length])


@settings(max_examples=25, deadline=None)
@given(position=st.integers(0, 4000), byte=st.integers(0, 255))
def test_a_changed_byte_is_an_error_or_other_data(position: int, byte: int) -> None:
    data = bytearray(pickle.dumps(VALUE, protocol=4))
    data[position % len(data)] = byte
    try:
        read(bytes(data))
    except InputError as error:
        assert "\n" not in str(error)


@settings(max_examples=25, deadline=None)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_an_error_or_data(data: bytes) -> None:
    try:
        read(data)
    except InputError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".",  # BINBYTES8 of 4 EiB
        b"\x80\x04B" + struct.pack("<I", 2**32 - 1) + b"x.",
        b"\x80\x04}h\x09.",  # a value that was never made
        b"\x80\x04u.",
        b"\x80\x04}]}s.",  # a list as a key
        b"\x80\x04K\x01K\x02.",
        b"\x80\x04(.",
    ],
)
def test_impossible_programs_are_damaged_files(data: bytes) -> None:
    with pytest.raises(InputError, match="not a pickle, or a damaged one"):
        read(data)


def test_the_error_is_the_callers(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"model\.pth: not a pickle"):
        load_pickle(io.BytesIO(b"text"), name="model.pth", error=CheckpointError)
    with pytest.raises(InputError, match="No such file"):
        load_pickle(tmp_path / "absent.pickle")


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_arrays_can_leave_memory_as_they_come(protocol: int, tmp_path: Path) -> None:
    megabyte = 1 << 20
    arrays = {f"video{index}": {"rgb": np.full(megabyte // 4, index, np.float32)} for index in range(16)}
    path = tmp_path / "features.pickle"
    path.write_bytes(pickle.dumps(arrays, protocol=protocol))
    count = 0

    def keep(array: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        np.save(tmp_path / f"{count}.npy", array)
        return np.load(tmp_path / f"{count}.npy", mmap_mode="r")

    tracemalloc.start()
    value = load_pickle(path, keep=keep)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * megabyte, "half of the file in memory at once"
    assert all(np.array_equal(value[name]["rgb"], arrays[name]["rgb"]) for name in arrays)


@pytest.mark.shared
def test_the_real_annotations_of_thumos14(shared_dir: Path) -> None:
    frames = 0
    with zipfile.ZipFile(shared_dir / "thumos14" / "anno_thumos.zip") as archive:
        for member in archive.namelist():
            data = archive.read(member)
            ours, theirs = read(data), pickle.loads(data)
            assert ours.keys() == theirs.keys()
            for video, entry in theirs.items():
                assert np.array_equal(ours[video]["anno"], entry["anno"])
                assert ours[video]["feature_length"] == entry["feature_length"]
                frames += len(entry["anno"])
    assert frames == 428_585
