"""Full disks and closed outputs: one line that names the file, whole lines in it, nothing where it does not belong."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cotrans_cli.main import run
from tests.robustness.small_run import started, train_arguments, write_clips
from tests.streaming.made_streams import write_model, write_rows, write_sound

Output = pytest.CaptureFixture[str]
ROWS = 60

pytestmark = pytest.mark.usefixtures("no_settings")


@pytest.fixture
def stream(tmp_path: Path) -> list[str]:
    """`cotrans stream` of a feature file."""
    write_rows(tmp_path / "rows.npy", ROWS)
    model = write_model(tmp_path / "model.safetensors")
    return ["stream", str(tmp_path / "rows.npy"), "--model", str(model), "--fast"]


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process may become larger than so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def one_line(capsys: Output) -> str:
    printed = capsys.readouterr().err
    lines = [line for line in printed.splitlines() if line.startswith("cotrans: error: ")]
    assert len(lines) == 1 and "a bug" not in printed, printed
    return lines[0]


def test_a_snapshot_on_a_full_disk(stream: list[str], tmp_path: Path, capsys: Output) -> None:
    state = tmp_path / "state"
    with full_disk(1024):
        assert run([*stream, "--snapshot", str(state), "--summary", str(tmp_path / "s.json")]) == 3
    line = one_line(capsys)
    assert "the disk is full" in line and str(state) in line
    assert not state.exists() and not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("form", ["jsonl", "csv", "txt"])
def test_predictions_on_a_full_disk_end_with_a_whole_line(
    stream: list[str], tmp_path: Path, capsys: Output, form: str
) -> None:
    out = tmp_path / f"out.{form}"
    with full_disk(777):
        assert run([*stream, "--out", str(out)]) == 3
    line = one_line(capsys)
    assert "the disk is full" in line and str(out) in line and "make room" in line
    text = out.read_text()
    assert text.endswith("\n") and 0 < len(text) <= 777
    if form == "jsonl":
        assert [json.loads(written)["index"] for written in text.splitlines()] == list(range(text.count("\n")))


def test_a_full_disk_in_extract_keeps_what_was_whole(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "media").mkdir()
    write_sound(tmp_path / "media" / "a.wav", 1.0)
    write_sound(tmp_path / "media" / "b.wav", 40.0)
    arguments = ["extract", str(tmp_path / "media"), "--features", "logmel", "--out", str(tmp_path / "out")]
    with full_disk(8192):
        assert run(arguments) == 3
    printed = capsys.readouterr().err
    assert "the disk is full" in printed and str(tmp_path / "out") in printed and "a bug" not in printed
    whole = (tmp_path / "out" / "a.npy").read_bytes()
    assert not (tmp_path / "out" / "b.npy").exists()
    assert run(arguments) == 0, "with room again, it goes on"
    assert (tmp_path / "out" / "a.npy").read_bytes() == whole and (tmp_path / "out" / "b.npy").exists()
    assert not list((tmp_path / "out").rglob("*.part"))


def test_a_full_disk_in_convert_and_train_names_the_file(stream: list[str], tmp_path: Path, capsys: Output) -> None:
    other = tmp_path / "other.safetensors"
    model = stream[stream.index("--model") + 1]
    with full_disk(1024):
        assert run(["convert", model, "--out", str(other)]) == 3
    line = one_line(capsys)
    assert "the disk is full" in line and str(other) in line
    clips, out = write_clips(tmp_path / "clips"), tmp_path / "run"
    with full_disk(4096):
        assert run([*train_arguments(clips), "--out", str(out)]) == 3
    line = one_line(capsys)
    assert "the disk is full" in line and str(out) in line


def test_standard_output_that_is_closed(stream: list[str], tmp_path: Path) -> None:
    process = started(stream, stdout=None, preexec_fn=lambda: os.close(1))
    _, err = process.communicate(timeout=120)
    assert process.returncode == 3
    assert err == "cotrans: error: standard output is closed: write to a file with --out\n"
    process = started(["models"], stdout=None, preexec_fn=lambda: os.close(1))
    _, err = process.communicate(timeout=120)
    assert process.returncode == 3 and len(err.splitlines()) == 1


def test_standard_error_that_is_closed(stream: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    process = started([*stream, "--out", str(out)], stderr=None, preexec_fn=lambda: os.close(2))
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0 and printed == "", "the summary is for standard error alone"
    assert [json.loads(line)["index"] for line in out.read_text().splitlines()] == list(range(ROWS))


def test_standard_output_on_a_full_disk(stream: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    for arguments in (stream, ["models"]):
        with Path("/dev/full").open("w") as full:
            process = started(arguments, stdout=full, stderr=subprocess.PIPE)
            _, err = process.communicate(timeout=120)
        assert process.returncode == 3, "not 120, which is Python's own"
        assert len(err.splitlines()) == 1 and "No space left" in err
