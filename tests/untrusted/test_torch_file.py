"""Files of torch.save: what is harmless is read, everything else is refused with a reason and nothing is run."""

from __future__ import annotations

import argparse
import io
import os
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

from pipelines.checkpoints.foreign_files.source_file import read_source
from pipelines.checkpoints.opening import open_source
from pipelines.errors import CheckpointError, InputError
from pipelines.untrusted.torch_file import read_torch_file


class Attack:
    """Its pickle asks the reader to run a command."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.mark}",)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.pth"


def refused(path: Path, *parts: str) -> None:
    with pytest.raises(CheckpointError) as refusal:
        read_source(path)
    message = str(refusal.value)
    assert "\n" not in message and len(message) < 500
    for part in parts:
        assert part in message


@pytest.mark.parametrize("zipped", [True, False])
def test_reads_what_training_scripts_save(path: Path, zipped: bool) -> None:
    weights = OrderedDict(a=torch.randn(2, 3), b=torch.arange(4), c=torch.nn.Parameter(torch.zeros(2)))
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2))])
    saved = {
        "model": weights,
        "optimizer": optimizer.state_dict(),
        "args": argparse.Namespace(heads=4, names=["a"], rate=0.1),
    }
    torch.save(saved, path, _use_new_zipfile_serialization=zipped)
    before = set(torch.serialization.get_safe_globals())
    source = read_source(path)
    assert set(torch.serialization.get_safe_globals()) == before
    assert torch.equal(source.weights["a"], weights["a"]) and list(source.weights) == ["a", "b", "c"]
    assert source.arguments == {"heads": 4, "names": ["a"], "rate": 0.1}
    assert source.beside == ("optimizer", "args")


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_prefixes_of_wrappers_are_taken_off(path: Path, prefix: str) -> None:
    torch.save({"state_dict": {f"{prefix}a.weight": torch.ones(2)}}, path)
    assert list(read_source(path).weights) == ["a.weight"]


def test_half_precision_becomes_single(path: Path) -> None:
    torch.save({"a": torch.ones(2).half(), "b": torch.ones(2).bfloat16()}, path)
    assert {value.dtype for value in read_source(path).weights.values()} == {torch.float32}


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
@pytest.mark.parametrize("inside", [True, False])
def test_plain_pickle_with_a_command(path: Path, tmp_path: Path, protocol: int, inside: bool) -> None:
    attack = Attack(tmp_path / "mark")
    path.write_bytes(pickle.dumps({"model": attack} if inside else attack, protocol=protocol))
    refused(path, "refused: the pickle asks for 'posix.system'", "nothing in the file was run")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_file_with_a_command(path: Path, tmp_path: Path, zipped: bool) -> None:
    saved = {"model": {"a": torch.zeros(2)}, "extra": Attack(tmp_path / "mark")}
    torch.save(saved, path, _use_new_zipfile_serialization=zipped)
    refused(path, "refused: the file asks for 'posix.system'", "nothing in the file was run")
    assert not (tmp_path / "mark").exists()


def test_whole_module_and_torchscript(path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), path)
    refused(path, "torch.nn.modules.linear.Linear")
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))
    refused(path, "TorchScript")


@pytest.mark.parametrize("kept", [1, 3, 10, 0.25, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("zipped", [True, False])
def test_truncated(path: Path, kept: float, zipped: bool) -> None:
    torch.save({"a": torch.randn(50, 50)}, path, _use_new_zipfile_serialization=zipped)
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(kept * len(data))])
    refused(path)


def test_flipped_byte_in_a_tensor(path: Path) -> None:
    torch.save({"a": torch.full((100,), 1.5)}, path)
    data = bytearray(path.read_bytes())
    data[data.index(torch.full((4,), 1.5).numpy().tobytes()) + 2] ^= 1
    path.write_bytes(data)
    refused(path, "checksum")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "is empty"),
        (b"these are not weights, but text", "neither a PyTorch nor a safetensors file"),
        (b"\x80\x02}.", "not one of torch.save"),
        (b"\x89PNG\r\n\x1a\n0000", "neither a PyTorch nor a safetensors file"),
        (b"\x00" * 64, "neither a PyTorch nor a safetensors file"),
        (b"\xff" * 8 + b"{" + b"\x00" * 64, "safetensors"),
    ],
)
def test_other_files(path: Path, content: bytes, part: str) -> None:
    path.write_bytes(content)
    refused(path, part)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_source(tmp_path / "none.pth")
    with pytest.raises(InputError, match=r"is a folder: give the \.pth or \.safetensors file in it"):
        read_source(tmp_path)


@pytest.mark.parametrize(
    ("saved", "part"),
    [
        (torch.zeros(3), "holds a Tensor"),
        ({}, "it holds: nothing"),
        ({"epoch": 3, "optimizer": {}}, "it holds: epoch, optimizer"),
        ({"model": {"a": torch.eye(2).to_sparse()}}, "asks for 'torch._utils._rebuild_sparse_tensor'"),
    ],
)
def test_no_weights(path: Path, saved: Any, part: str) -> None:
    torch.save(saved, path)
    refused(path, part)


def test_a_tensor_repeated_without_end(path: Path) -> None:
    torch.save({"a": torch.zeros(1).expand(10**13)}, path)
    assert path.stat().st_size < 2000
    refused(path, "is larger than the file")


def rewrite_pickle(path: Path, old: bytes, new: bytes) -> None:
    """Change the pickle inside a file of torch.save."""
    with zipfile.ZipFile(path) as archive:
        members = {member.filename: archive.read(member) for member in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            changed = data.replace(old, new) if name.endswith("data.pkl") else data
            assert changed != data or not name.endswith("data.pkl")
            archive.writestr(name, changed)


def number(value: int) -> bytes:
    """A number as a pickle writes it, without protocol and end."""
    return pickle.dumps(value, protocol=2)[2:-1]


def test_a_tensor_that_claims_more_than_there_is(path: Path) -> None:
    torch.save({"a": torch.zeros(1234)}, path)
    rewrite_pickle(path, number(1234), number(10**14))
    refused(path, "a tensor claims 400000000000000 bytes, but the file has 4936 for it")


def test_a_tensor_that_claims_more_in_an_old_file(path: Path) -> None:
    torch.save({"a": torch.zeros(1234)}, path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes().replace(number(1234), number(2**31 - 1)))
    refused(path, "its tensors claim 8589934588 bytes")


def test_a_tensor_outside_its_numbers(path: Path) -> None:
    torch.save({"a": torch.zeros(1234)[:300]}, path)
    rewrite_pickle(path, number(300) + b"\x85", number(1300) + b"\x85")
    refused(path, "lies outside its 1234 numbers")


def test_compressed_archive(path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"a": torch.zeros(1_000_000)}, buffer)
    with zipfile.ZipFile(buffer) as archive, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for member in archive.infolist():
            packed.writestr(member.filename, archive.read(member))
    assert path.stat().st_size < 20_000
    refused(path, "compressed")


def test_archive_of_something_else(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    refused(path, "not one of torch.save")


def test_attributes_set_on_names_do_not_stay(path: Path) -> None:
    """A pickle may set attributes of what it names: those are stand-ins, thrown away with the file."""
    program = b"\x80\x02cargparse\nNamespace\nN}U\x05extraK\x01s\x86b."
    pickletools.dis(program, io.StringIO())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", program)
    with pytest.raises(CheckpointError):
        read_torch_file(path)
    assert not hasattr(argparse.Namespace, "extra")


def test_names_in_a_file_are_printed_harmlessly(path: Path) -> None:
    torch.save({"\x1b[2Jkey\nwith lines": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError) as refusal:
        open_source(path)
    assert r"\x1b[2Jkey with lines" in str(refusal.value)


def test_damaged_bytes_anywhere(path: Path) -> None:
    """Whatever byte is wrong, the answer is weights or a CheckpointError, never a crash."""
    torch.save({"model": {"a": torch.randn(3, 3)}, "args": argparse.Namespace(heads=2)}, path)
    data = path.read_bytes()
    generator = torch.Generator().manual_seed(0)
    for place in torch.randperm(len(data), generator=generator)[:300].tolist():
        broken = bytearray(data)
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        try:
            read_source(path)
        except CheckpointError as refusal:
            assert "\n" not in str(refusal)
