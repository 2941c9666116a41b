"""Names that are not UTF-8, and names that would steer a terminal: shown written out, everywhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from cotrans_cli.main import run
from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.model import ContinualTransformer, ModelConfig
from tests.robustness.small_run import started
from tests.streaming.made_streams import WIDTH, write_model, write_rows, write_sound

Output = pytest.CaptureFixture[str]
STEERING = ("\x1b", "\x9b", "\x07", "\r", "\u202e")
STRANGE = os.fsdecode(b"str\xff\xfeange")

pytestmark = pytest.mark.usefixtures("no_settings")


def test_file_names_that_are_not_utf_8(tmp_path: Path) -> None:
    source, out, labels = tmp_path / f"{STRANGE}.wav", tmp_path / "features", tmp_path / "labels.jsonl"
    write_sound(tmp_path / "plain.wav", 1.0).rename(source)
    model = str(write_model(tmp_path / "model.safetensors", "logmel"))
    for arguments in (
        ["extract", str(source), "--features", "logmel", "--out", str(out)],
        ["extract", str(source), "--features", "logmel", "--out", str(out), "--json"],
        ["stream", str(source), "--model", model, "--fast", "--out", str(labels)],
        ["stream", str(source), "--model", model, "--fast"],
        ["info", str(source)],
    ):
        process = started(arguments)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, (arguments, err)
        assert "Traceback" not in err
    assert (out / f"{STRANGE}.npy").is_file()
    lines = [json.loads(line) for line in labels.read_text().splitlines()]
    assert {line["source"] for line in lines} == {str(source)}, "JSON gives the name back as it was"
    manifest = json.loads((out / f"{STRANGE}.json").read_text())
    assert manifest["source"]["path"] == str(source)


def test_class_and_file_names_are_shown_written_out(tmp_path: Path, capsys: Output) -> None:
    names = tuple(f"class{sign}[31m {number}\n" for number, sign in enumerate(STEERING))
    torch.manual_seed(0)
    config = ModelConfig(input_width=WIDTH, width=8, heads=2, feed_forward=8, blocks=1, window=4, classes=len(names))
    model = tmp_path / "model.safetensors"
    save_checkpoint(model, ContinualTransformer(config).eval(), names)
    source = tmp_path / "evil\x1b[2J\nname.npy"
    write_rows(source, 12)
    for arguments in (
        ["info", str(model)],
        ["info", str(model), "--json"],
        *(
            ["stream", str(source), "--model", str(model), "--fast", "--format", form]
            for form in ("table", "jsonl", "srt")
        ),
        ["stream", str(source), str(tmp_path / "absent\x1b.npy"), "--model", str(model), "--fast"],
        ["stream", str(source), "--model", str(tmp_path / "absent\x1b\n.safetensors")],
        ["extract", str(tmp_path / "absent\x1b.wav"), "--out", str(tmp_path / "out")],
        ["weights", "get", "no\x1bname"],
    ):
        run(arguments)
        printed = capsys.readouterr()
        for text in (printed.out, printed.err):
            assert not any(sign in text for sign in STEERING), (arguments, text)
        assert printed.out + printed.err, arguments


def test_weights_are_not_added_under_such_names(tmp_path: Path, capsys: Output) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "w.pth")
    for name in ("a\x1b[31m", "a\nb", "a\u202eb"):
        assert run(["weights", "add", name, str(tmp_path / "w.pth")]) == 2
        assert not any(sign in capsys.readouterr().err for sign in STEERING)
