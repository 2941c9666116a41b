"""Arguments that no command may take silently."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cotrans_cli.main import run
from pipelines.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from pipelines.streaming.sources.source import find_sources
from tests.streaming.made_streams import write_model, write_sound


@pytest.mark.parametrize(
    "arguments",
    [
        ["stream", ""],
        ["stream", "a.wav", ""],
        ["stream", "--fast", ""],
        ["extract", "", "--out", "x"],
        ["convert", ""],
        ["info", ""],
        ["weights", "get", ""],
        ["stream", "weights/demo/demo.ogg", "--fast", "--out", ""],
        ["stream", "weights/demo/demo.ogg", "--model="],
        ["stream", "weights/demo/demo.ogg", "--only", "dog", "--only", ""],
        ["extract", "weights/demo/demo.ogg", "--features", "logmel", "--out", ""],
        ["train", "weights/demo", "--out", ""],
        ["convert", "tests/golden/oadtr_b1.pth", "-o", ""],
    ],
)
def test_an_empty_name_is_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert "is empty" in capsys.readouterr().err


def test_an_option_that_is_given_twice_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stream", "a.wav", "--out", "a.csv", "--out=b.csv"]) == 2
    assert "--out is given 2 times" in capsys.readouterr().err
    assert run(["stream", "a.wav", "--model", "objects", "--model", "sound-events"]) == 2
    assert "--model is given 2 times: give it once, with commas between names" in capsys.readouterr().err
    assert run(["stream", "a.wav", "--weights", "a.pth", "--weights", "b.pth"]) == 3  # that one may be repeated
    assert "a.wav" in capsys.readouterr().err


def test_a_json_file_is_refused_with_the_right_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stream", "weights/demo/demo.ogg", "--out", "o.json"]) == 2
    assert "o.jsonl" in capsys.readouterr().err
    assert not Path("o.json").exists()


@pytest.mark.parametrize("option", ["--summary", "--out", "--snapshot"])
def test_an_unwritable_output_is_told_before_playing(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    target = tmp_path / "file" / "below.csv"
    assert run(["stream", "weights/demo/demo.ogg", "--fast", option, str(target)]) == 3
    said = capsys.readouterr()
    assert f"{option}: cannot write to {target}" in said.err and not said.out
    # Permissions allow it, and still there can be no such folder.
    if Path("/proc").is_dir():
        assert run(["stream", "weights/demo/demo.ogg", "--fast", option, "/proc/none/x.csv"]) == 3
        said = capsys.readouterr()
        assert f"{option}: cannot write to /proc/none/x.csv" in said.err and not said.out


def test_a_feature_file_of_nan_alone_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.npy"
    from pipelines.streaming import open_model

    width = open_model("spoken-digits").model.config.input_width
    np.save(path, np.full((20, width), np.nan, np.float32))
    assert run(["stream", str(path), "--model", "spoken-digits", "--fast", "--plain"]) == 3
    assert "every row (20) holds NaN" in capsys.readouterr().err


def test_what_would_change_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model, or the file, says how far apart rows are; and nothing is saved without a place for it."""
    sound, model = str(write_sound(tmp_path / "a.wav", 0.5)), str(write_model(tmp_path / "m.safetensors", "logmel"))
    rows = tmp_path / "rows.safetensors"  # the same model, which does not say what its rows are
    checkpoint = load_checkpoint(Path(model))
    save_checkpoint(rows, checkpoint.model, checkpoint.class_names, None)
    assert run(["extract", sound, "--features", "logmel", "--hop", "0.1", "--out", str(tmp_path / "out")]) == 0
    extracted = str(tmp_path / "out" / "a.npy")
    for words, said in (
        ([sound, "--model", model, "--hop", "0.2"], f"--hop 0.2: {model} takes rows every 0.1 s: leave it out"),
        ([extracted, "--model", str(rows), "--hop", "0.2"], "has rows every 0.1 s: leave it out"),
        ([sound, "--model", model, "--every", "3"], "--every is how often the state is saved: add --snapshot FILE"),
    ):
        assert run(["stream", *words, "--fast", "--plain", "-q"]) == 2
        assert said in capsys.readouterr().err
    assert run(["stream", extracted, "--model", str(rows), "--hop", "0.1", "--fast", "--plain", "-q"]) == 0


def test_a_folder_of_sources_is_mirrored(tmp_path: Path) -> None:
    for name in ("a/one.npy", "b/one.npy", "two.npy"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "in" / name, np.zeros((2, 3), np.float32))
    sources = find_sources([str(tmp_path / "in")])
    assert [source.output for source in sources] == ["a/one", "b/one", "two"]


def test_fast_says_nothing_of_latency(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = tmp_path / "s.json"
    run(["stream", "weights/demo/demo.ogg", "--fast", "--segments", "--duration", "1", "--summary", str(summary)])
    assert "latency" not in capsys.readouterr().err
    assert '"latency": null' in summary.read_text()


def test_a_terminal_without_unicode_shows_look_alikes() -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "TERM": "dumb"}
    command = [sys.executable, "-m", "cotrans_cli", "models"]
    process = subprocess.Popen(command, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    shown = b""
    try:
        while block := os.read(master, 4096):
            shown += block
    except OSError:  # the other end is closed
        pass
    os.close(master)
    assert process.wait() == 0 and b"sound-events" in shown and b"UnicodeEncodeError" not in shown
    assert shown.isascii()


def test_a_pipe_gets_utf_8_whatever_the_locale() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [
        sys.executable,
        "-m",
        "cotrans_cli",
        "stream",
        "weights/demo/demo.ogg",
        "--fast",
        "-q",
        "--threshold",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0 and "–" in done.stdout.decode("utf-8")


@pytest.mark.parametrize("name", ["keep.srt", "keep.csv", "keep.jsonl"])
def test_a_source_that_cannot_be_played_empties_no_output(name: str, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("this is no video")
    kept = tmp_path / name
    kept.write_text("labels of yesterday")
    assert run(["stream", str(tmp_path / "text.mp4"), "--model", "sound-events", "--fast", "--out", str(kept)]) == 3
    assert kept.read_text() == "labels of yesterday"
    assert run(["stream", "weights/demo/demo.ogg", "--fast", "-q", "--duration", "2", "--out", str(kept)]) == 0
    assert "yesterday" not in kept.read_text() and kept.read_text()
