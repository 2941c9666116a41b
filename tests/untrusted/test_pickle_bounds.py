"""Small pickles that would take all memory or all time, in every reader of pickles."""

from __future__ import annotations

import io
import pickle
import resource
import struct
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.errors import CotransError
from pipelines.untrusted.pickle_bounds import PickleBoundsError, check_pickle
from pipelines.untrusted.safe_pickle import load_pickle
from pipelines.untrusted.torch_file import read_torch_file
from tests.robustness import alike
from tests.robustness.hostile_pickles import as_archive, as_legacy, as_pickle

SECONDS = 60  # until a reader counts as hanging; the bounds answer in milliseconds


def nested_key(depth: int = 60) -> bytes:
    """Tuples, each the pair of the one before, as the key of a dictionary: 2^depth steps to hash."""
    program = b"\x80\x02})"
    for number in range(depth):
        program += b"r" + struct.pack("<I", number) + b"h" + bytes([number]) + b"\x86"
    return program + b"Ns."


def large_shape() -> bytes:
    """A tensor's shape of 3,000 copies of an integer of 320,000 bits."""
    digits = b"\x01" * 40_000
    number = b"\x8b" + struct.pack("<I", len(digits)) + digits
    return b"\x80\x02(" + number + b"q\x00" + b"h\x00" * 3_000 + b"t."


def identifier() -> bytes:
    """Lists that hold the one before twice, as the name of something outside the pickle."""
    program = b"\x80\x02]"
    for number in range(60):
        program += b"q" + bytes([number]) + b"]h" + bytes([number]) + b"ah" + bytes([number]) + b"a"
    return program + b"\x85Q."


def text(value: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value


def tensor_of_large_integers() -> bytes:
    """Such integers as the shape and the strides of a real tensor, which are multiplied with each other."""
    storage = b"(" + text(b"storage") + b"ctorch\nFloatStorage\n" + text(b"0") + text(b"cpu") + b"K\x00tQ"
    shape = large_shape()[2:-1] + b"q\x01"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00" + shape + b"h\x01\x89NtR."


def identifier_of_a_tensor() -> bytes:
    """Such lists where the type of a tensor's numbers should be: the message about them would never end."""
    lists = identifier()[2:-3] + b"q\xc8"
    return b"\x80\x02" + lists + b"(" + text(b"storage") + b"h\xc8" + text(b"0") + text(b"cpu") + b"K\x01tQ."


def repeated_sets() -> bytes:
    """The same long list made into a set again and again."""
    program = b"\x80\x02](" + b"K\x01" * 100_000 + b"e\x85q\x00c__builtin__\nset\nq\x01"
    return program + b"h\x01h\x00R0" * 100_000 + b"N."


ATTACKS: dict[str, Callable[[], bytes]] = {
    "memo": lambda: bytes.fromhex("80024e72ffffff0f2e"),
    "largest memo": lambda: b"\x80\x02Nr\xff\xff\xff\xff.",
    "nested key": nested_key,
    "nested key in a set": lambda: nested_key().replace(b"})", b"\x8f()", 1)[:-3] + b"\x90.",
    "large integers": large_shape,
    "identifier": identifier,
    "tensor of large integers": tensor_of_large_integers,
    "identifier of a tensor": identifier_of_a_tensor,
    "deep tuples": lambda: b"\x80\x02)" + b"\x85" * 500_000 + b".",
    "repeated sets": repeated_sets,
    "integers with one hash": lambda: alike.integers(60_000),
    "pairs with one hash": lambda: alike.pairs(50_000),
    "complex numbers with one hash": lambda: alike.complex_numbers(30_000),
    "nested sets": alike.nested_sets,
    "nested shapes": alike.nested_shapes,
    "nested parameters": alike.nested_parameters,
}


READERS = {
    "zip": (as_archive, "from pipelines.untrusted.torch_file import read_torch_file as read"),
    "legacy": (as_legacy, "from pipelines.untrusted.torch_file import read_torch_file as read"),
    "features": (as_pickle, "from pipelines.untrusted.safe_pickle import load_pickle as read"),
}


@pytest.mark.parametrize("reader", READERS)
def test_small_files_cost_little_in_every_reader(reader: str, tmp_path: Path) -> None:
    """In a process of its own, with bounded memory and time: a hang or a crash would take the tests with it."""
    write, imported = READERS[reader]
    files = [str(write(attack(), tmp_path / f"{number}.pth")) for number, attack in enumerate(ATTACKS.values())]
    code = f"""
import sys
from pathlib import Path
from pipelines.errors import CotransError
{imported}
for name in sys.argv[1:]:
    try:
        read(Path(name))
    except CotransError as error:
        print("refused", error)
    else:
        print("read")
"""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    done = subprocess.run(
        [sys.executable, "-c", code, *files], capture_output=True, text=True, preexec_fn=limit, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(ATTACKS) and all(line.startswith("refused") for line in lines), done.stdout


@pytest.mark.parametrize("attack", ["memo", "largest memo", "nested key", "large integers", "deep tuples"])
def test_the_bounds_name_what_is_too_large(attack: str) -> None:
    with pytest.raises(PickleBoundsError):
        check_pickle(io.BytesIO(ATTACKS[attack]()))


def test_real_files_are_within_the_bounds(tmp_path: Path) -> None:
    rows = {f"video_{number}": {"rgb": np.ones((30, 8), np.float32), "fps": 4} for number in range(200)}
    for protocol in range(6):
        (tmp_path / "rows.pickle").write_bytes(pickle.dumps(rows, protocol))
        assert len(load_pickle(tmp_path / "rows.pickle")) == 200
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 4, 24), 6)
    state = {"model": model.state_dict(), "names": [f"class {number}" for number in range(5000)], "epoch": 3}
    for legacy in (False, True):
        torch.save(state, tmp_path / "m.pth", _use_new_zipfile_serialization=not legacy)
        read = read_torch_file(tmp_path / "m.pth")
        assert isinstance(read["model"], OrderedDict) and len(read["names"]) == 5000


def test_keys_of_real_files_are_within_the_bounds(tmp_path: Path) -> None:
    """Many keys, in many dictionaries, of every kind: what is refused is different keys with one hash."""
    numbers: dict[object, int] = dict.fromkeys(range(30_000), 0)
    numbers |= {number / 7: 0 for number in range(20_000)} | {(number, number % 7): 0 for number in range(20_000)}
    numbers |= {("clip", number, None, 0.5 * number): 0 for number in range(5_000)} | {1 << 200: 0, (): 0}
    many = [{(1, 2): 3, 0.5: 4, 1 << 80: 5, (True, "x"): 6} for _ in range(5_000)]
    value = {
        "numbers": numbers,
        "many": many,
        "sets": [{1, 2.5}, frozenset({1, (2, 3)})],
        "n": np.float64(2.5),
        b"x": 0,
    }
    for protocol in range(6):
        (tmp_path / "keys.pickle").write_bytes(pickle.dumps(value, protocol))
        assert load_pickle(tmp_path / "keys.pickle") == value
    for legacy in (False, True):
        state = {"numbers": numbers, "shape": torch.Size([3, 4]), "w": torch.nn.Parameter(torch.ones(2))}
        torch.save(state, tmp_path / "k.pth", _use_new_zipfile_serialization=not legacy)
        read = read_torch_file(tmp_path / "k.pth")
        assert read["numbers"] == numbers and read["shape"] == (3, 4)


def test_numbers_and_shapes_beyond_a_machine(tmp_path: Path) -> None:
    program = pickle.dumps(1 << 400, 2)
    check_pickle(io.BytesIO(program))
    with pytest.raises(PickleBoundsError, match="an integer of"):
        check_pickle(io.BytesIO(pickle.dumps(1 << 600, 2)))
    (tmp_path / "x.pickle").write_bytes(pickle.dumps(1 << 600, 2))
    with pytest.raises(CotransError, match="an integer of 601 bits"):
        load_pickle(tmp_path / "x.pickle")
