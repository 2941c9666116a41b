"""Every reader of files: damaged ones are refused by an error of the family, small ones cost little, none runs code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cotrans_cli.main import run
from pipelines.errors import CheckpointError, CotransError
from pipelines.features.weights.reading import read_weight_file
from pipelines.untrusted.safe_pickle import load_pickle
from pipelines.untrusted.torch_file import read_torch_file
from tests.robustness.bombs import write_bombs
from tests.robustness.costs import MOST_MEGABYTES, MOST_SECONDS
from tests.robustness.fuzzing import kept_seeds, try_input
from tests.robustness.hostile_pickles import as_archive, as_legacy, as_pickle, hostile_pickles
from tests.robustness.mutation import mutated
from tests.robustness.parsers import Parser, all_parsers
from tests.streaming.made_streams import write_model, write_rows

ROOT = Path(__file__).parents[2]
Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Parser]:
    return all_parsers(tmp_path_factory.mktemp("parsers"))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.integers(0, 1000), number=st.integers(0, 1 << 32))
def test_mutated_files_are_read_or_refused(parsers: dict[str, Parser], tmp_path: Path, name: int, number: int) -> None:
    chosen = sorted(parsers)[name % len(parsers)]
    parser = parsers[chosen]
    assert try_input(chosen, parser, mutated(parser.seeds, number), tmp_path, number) is None


def test_good_files_and_those_that_once_broke_something(parsers: dict[str, Parser], tmp_path: Path) -> None:
    for name, parser in parsers.items():
        for data in (*parser.seeds, *(path.read_bytes() for path in kept_seeds(name))):
            assert try_input(name, parser, data, tmp_path) is None


HEADER = b"\x93NUMPY\x01\x00"
# What the campaign of issue 21 found, by reader.
FOUND: dict[str, tuple[bytes, ...]] = {
    "npy": tuple(
        HEADER + len(text).to_bytes(2, "little") + text
        for text in (
            b"{'descr': '(,)f4', 'fortran_order': False, 'shape': (3, 4), }\n",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999, 4), }\n",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4\n",
            b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 4096), }\n",
            b"(" * 4000 + b"\n",
        )
    ),
    "toml": (b"a = " + b"9" * 5000, b"a = " + b"[" * 5000, b"a = " + b"{b=" * 3000),
    "recipe": (b"[training]\nepochs = " + b"9" * 4000,),
    "settings": (b'cache = "~nobodyx/y"\n', b"threads = " + b"9" * 4000),
    "labels json": (b"[" * 50_000, b"[" + b"9" * 5000 + b"]"),
    "manifest": (b'{"format": "cotrans-features", "version": 1, "rows": ' + b"9" * 5000, b"[" * 50_000),
    "registry": (b'[x]\nfile = []\nlicence = "a"\ntrained_on = "b"\nsha256 = "00000000"\nshipped = true\n',),
    "legacy pth": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.\x80\x02]q\x00.",),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_outside_the_family_is_refused(parsers: dict[str, Parser], tmp_path: Path, name: str) -> None:
    path = tmp_path / f"input{parsers[name].suffix}"
    for data in FOUND[name]:
        path.write_bytes(data)
        with pytest.raises(CotransError):
            parsers[name].read(path)


def test_a_list_as_an_extractor(parsers: dict[str, Parser], tmp_path: Path) -> None:
    for key, value in (("name", []), ("width", "x"), ("kind", 3), ("options", []), ("width", 10**12)):
        manifest = json.loads(parsers["manifest"].seeds[0])
        manifest["spec"]["parts"][0][key] = value
        (tmp_path / "a.json").write_text(json.dumps(manifest))
        with pytest.raises(CotransError, match=key):
            parsers["manifest"].read(tmp_path / "a.json")


Reader = Callable[[Path], Any]
PICKLES: dict[str, tuple[Callable[[bytes, Path], Path], Reader]] = {
    "pth": (as_archive, read_torch_file),
    "legacy pth": (as_legacy, read_torch_file),
    "weights": (as_archive, lambda path: read_weight_file(path, arrays=True)),
    "features": (as_pickle, load_pickle),
}


@pytest.mark.parametrize("kind", PICKLES)
def test_no_pickle_runs_anything(tmp_path: Path, kind: str) -> None:
    write, read = PICKLES[kind]
    canary = tmp_path / "was-run"
    programs = list(hostile_pickles(canary))
    assert len(programs) >= 200
    for what, program in programs:
        with pytest.raises(CotransError):
            read(write(program, tmp_path / "hostile.pth"))
        assert not canary.exists(), what


@pytest.mark.slow
def test_small_files_cost_little(tmp_path: Path) -> None:
    for kind, files in write_bombs(tmp_path).items():
        if not files:
            continue
        command = [sys.executable, "-m", "tests.robustness.costs", kind, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
        assert done.returncode == 0, f"{kind}: {done.stderr[-500:]}"
        for path, line in zip(files, done.stdout.splitlines(), strict=True):
            _, seconds, megabytes = json.loads(line)
            assert path.stat().st_size <= 1_000_000
            assert seconds < MOST_SECONDS and megabytes < MOST_MEGABYTES, f"{kind} {path.name}: {line}"


def edited(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a snapshot says about its stream, with nothing that tells of the change."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, "pt") as file:
        metadata, tensors = dict(file.metadata()), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    extra = json.loads(metadata["extra"])
    value = json.loads(extra["stream"])
    change(value)
    metadata["extra"] = json.dumps({"stream": json.dumps(value)})
    metadata.pop("checksum", None)
    save_file(tensors, path, metadata)


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "slot": lambda value: value["sources"][0].update(slot=99),
    "negative slot": lambda value: value["sources"][0].update(slot=-1),
    "row": lambda value: value["sources"][0].update(place={"turn": 0, "row": 10**12, "index": 10**12}),
    "begun without a slot": lambda value: value["sources"][0].update(
        slot=None, place={"turn": 0, "row": 10**12, "index": 10**12}
    ),
    "text as a row": lambda value: value["sources"][0].update(place={"turn": 0, "row": "3", "index": 3}),
    "smoothing": lambda value: value["sources"][0].update(smoothing=[[1.0]]),
    "settings": lambda value: value.update(settings=[]),
    "sink": lambda value: value.update(sink={"position": "x"}),
    "no sources": lambda value: value.update(sources={}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_edited_snapshots_are_not_believed(tmp_path: Path, capsys: Output, change: str) -> None:
    write_rows(tmp_path / "rows.npy", 40)
    model, state, out = write_model(tmp_path / "m.safetensors"), tmp_path / "state", tmp_path / "out.jsonl"
    arguments = ["stream", str(tmp_path / "rows.npy"), "--model", str(model), "--fast", "--out", str(out)]
    assert run([*arguments, "--duration", "2", "--snapshot", str(state)]) == 0
    edited(state, lambda value: value["sources"][0].update(over=False, slot=0))
    edited(state, CHANGES[change])
    assert run([*arguments, "--duration", "2", "--resume", str(state)]) in (2, 5)
    printed = capsys.readouterr().err
    assert "a bug" not in printed and "Traceback" not in printed


def test_a_damaged_snapshot_is_not_believed(tmp_path: Path, parsers: dict[str, Parser]) -> None:
    data = bytearray(parsers["snapshot"].seeds[0])
    data[-3] ^= 1  # in the numbers of the state
    (tmp_path / "state").write_bytes(data)
    with pytest.raises(CheckpointError, match="checksum"):
        parsers["snapshot"].read(tmp_path / "state")
