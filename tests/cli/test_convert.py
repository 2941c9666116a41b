"""`cotrans convert` as a user runs it: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from cotrans_cli.main import run
from pipelines.checkpoints import load_checkpoint

Output = pytest.CaptureFixture[str]
GOLDEN = {
    "oadtr_b1": ["--no-class-token"],
    "oadtr_b1_cls": ["--class-token"],
    "oadtr_b2": ["--no-class-token"],
    "oadtr_decoder": [],
}


@pytest.fixture
def work(golden_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with copies of the golden checkpoints, to stand in."""
    for path in golden_dir.glob("*.pth"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", GOLDEN)
@torch.inference_mode()
def test_golden(work: Path, golden_dir: Path, name: str, capsys: Output) -> None:
    """Must show 1: convert, then step through the stream to the expected scores."""
    assert run(["convert", f"{name}.pth", *GOLDEN[name]]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == f"wrote {name}.cotrans.safetensors"
    assert "MACs per prediction" in printed.out and "96 steps of random features" in printed.out
    expected = load_file(golden_dir / f"{name}.expected.safetensors")
    model = load_checkpoint(work / f"{name}.cotrans.safetensors").model
    stream = torch.cat([expected["rgb"], expected["flow"]], dim=1).unsqueeze(0)
    scores, _ = model.steps(stream, model.initial_state(1))
    difference = (scores[0, model.config.window - 1 :] - expected["scores"]).abs().max()
    assert difference <= 2e-5 * expected["scores"].abs().max()


def test_json(work: Path, capsys: Output) -> None:
    (work / "names.txt").write_text("# the classes\n" + "\n".join(f"action {index}" for index in range(22)))
    command = ["convert", "oadtr_decoder.pth", "--labels", "names.txt", "--out", "sub/model.safetensors", "--json"]
    assert run(command) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report["output"] == "sub/model.safetensors" and report["class_names"][3] == "action 3"
    assert report["proof"]["steps"] == 96 and report["proof"]["relative"] < report["limit"] == 1e-4
    assert report["macs_after"] < report["macs_before"]
    assert report["dropped"]["decoder_position_encoding.pe.weight"] == "OadTR never adds it"
    assert load_checkpoint(work / "sub/model.safetensors").class_names[3] == "action 3"


def test_recycling_says_what_to_do(work: Path, capsys: Output) -> None:
    assert run(["convert", "oadtr_decoder.pth", "--mode", "recycling", "--encoding", "cyclic", "--positions", "n"]) == 0
    printed = capsys.readouterr()
    assert "note: recycling positions change the model: fine-tune it before use" in printed.err
    assert "next: cotrans train --init oadtr_decoder.cotrans.safetensors --dataset" in printed.err
    assert "until it is fine-tuned" in printed.out


def test_own_output_again(work: Path, capsys: Output) -> None:
    assert run(["convert", "oadtr_decoder.pth"]) == 0
    assert run(["convert", "oadtr_decoder.cotrans.safetensors"]) == 2
    assert "choose another name with --out" in capsys.readouterr().err
    assert run(["convert", "oadtr_decoder.cotrans.safetensors", "-o", "again.safetensors"]) == 0
    assert (work / "again.safetensors").read_bytes() == (work / "oadtr_decoder.cotrans.safetensors").read_bytes()


class Attack:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch mark",)


def _broken(path: Path, kind: str) -> None:
    """Make a hostile or damaged file."""
    saved = torch.load(path, weights_only=False)
    weights = saved["model"]
    if kind == "command":
        saved["extra"] = Attack()
    elif kind == "missing":
        del weights["encoder.net.1.fn.norm.bias"]
    elif kind == "extra":
        weights["surprise"] = torch.zeros(2)
    elif kind == "shape":
        weights["encoder.net.0.fn.fn.proj.weight"] = torch.zeros(32, 31)
    elif kind == "nan":
        weights["mlp_head.bias"][0] = torch.nan
    elif kind == "bomb":
        weights["mlp_head.bias"] = torch.zeros(1).expand(10**13)
    torch.save(saved, path)
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:20_000])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("These are my weights:\n1.0 2.0 3.0\n")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("command", "refused: the file asks for 'posix.system'"),
        ("truncated", "damaged or truncated"),
        ("empty", "is empty"),
        ("text", "neither a PyTorch nor a safetensors file"),
        ("bomb", "a tensor of shape (10000000000000,) is larger than the file"),
        ("missing", "encoder.net.1.fn.norm.bias is missing"),
        ("extra", "surprise is not known"),
        ("shape", "encoder.net.0.fn.fn.proj.weight is 32×31 instead of 32×32"),
        ("nan", "NaN or infinity in its weights: mlp_head.bias"),
    ],
)
def test_hostile_and_broken_files(work: Path, kind: str, message: str, capsys: Output) -> None:
    """Must show 6: one clear line, exit code 5, nothing written, nothing run."""
    _broken(work / "oadtr_b1.pth", kind)
    before = sorted(work.iterdir())
    assert run(["convert", "oadtr_b1.pth", "--no-class-token"]) == 5
    printed = capsys.readouterr()
    assert printed.out == "" and len(printed.err.splitlines()) == 1
    assert printed.err.startswith("cotrans: error: oadtr_b1.pth") and message in printed.err
    assert sorted(work.iterdir()) == before  # and no file "mark"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["oadtr_b1.pth"], 2, "add --class-token (the official forward pass) or --no-class-token"),
        (["continual_b1.pth"], 2, "its window and number of heads: add --window"),
        (["."], 3, ". is a folder: give the .pth or .safetensors file in it"),
        (["continual_b1.pth", "--window", "8"], 2, "add --heads"),
        (["continual_b1.pth", "--window", "8", "--heads", "3"], 4, "not divisible by heads 3"),
        (["oadtr_decoder.pth", "--norm", "pre"], 2, "--norm: an OadTR has no use for this"),
        (["oadtr_decoder.pth", "--positions", "n"], 2, "--positions"),
        (["oadtr_decoder.pth", "--mode", "magic"], 2, "magic"),
        (["oadtr_decoder.pth", "--labels", "none.txt"], 3, "class names cannot be read from none.txt"),
        (["oadtr_decoder.pth", "--verify", "none.npy"], 3, "there is no file none.npy"),
        (["none.pth"], 3, "there is no file none.pth"),
        (["oadtr_decoder.pth", "--trust"], 2, "--trust"),
    ],
)
def test_usage(work: Path, arguments: list[str], code: int, message: str, capsys: Output) -> None:
    before = sorted(work.iterdir())
    assert run(["convert", *arguments]) == code
    printed = capsys.readouterr()
    assert message in printed.err and len(printed.err.splitlines()) == 1
    assert sorted(work.iterdir()) == before


def test_wrong_labels(work: Path, capsys: Output) -> None:
    (work / "names.json").write_text('["a", "b"]')
    assert run(["convert", "oadtr_decoder.pth", "--labels", "names.json"]) == 4
    assert "2 class names for 22 classes" in capsys.readouterr().err


def test_help_explains(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """Must show 7."""
    monkeypatch.setenv("COLUMNS", "120")
    assert run(["convert", "--help"]) == 0
    text = capsys.readouterr().out
    for word in ("OadTR", "torch.nn.TransformerEncoder", "--no-class-token", "--verify", "cotrans convert oadtr.pth"):
        assert word in text


def test_what_was_changed_does_not_cost_what_the_file_did(work: Path, capsys: Output) -> None:
    assert run(["convert", "oadtr_decoder.pth", "--out", "own.safetensors"]) == 0
    assert " times fewer" in capsys.readouterr().out
    assert run(["convert", "own.safetensors", "--out", "copy.safetensors"]) == 0
    assert ", as in the file; the regular model on a window: " in capsys.readouterr().out
    for change in (["--drop-decoder"], ["--mode", "recycling"]):
        assert run(["convert", "own.safetensors", "--out", "new.safetensors", "--force", *change]) == 0
        printed = capsys.readouterr().out
        assert "as in the file" not in printed and "times fewer" not in printed
        assert "; the regular model of the file on a window: " in printed


def test_what_is_left_out_is_a_warning_with_an_exit_code(tmp_path: Path, capsys: Output) -> None:
    torch.manual_seed(0)
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), 1)
    weights = {f"encoder.{key}": value for key, value in encoder.state_dict().items()}
    torch.save({**weights, "pos_embed": torch.randn(1, 6, 16)}, tmp_path / "m.pth")
    known = ["convert", str(tmp_path / "m.pth"), "--heads", "4", "--window", "6", "--prefix", "encoder.", "--force"]
    assert run(known) == 5
    printed = capsys.readouterr()
    assert "the numbers differ from your model's: pos_embed" in printed.err and "wrote" in printed.out
    assert "(--allow-dropped if that is meant)" in printed.err and ", no positions, " in printed.out
    assert run([*known, "--allow-dropped"]) == 0
    assert capsys.readouterr().err.rstrip().endswith("which the proof does not cover")
    assert run([*known[:6], "--force"]) == 0  # with its positions it is the whole model
    assert "static positions" in capsys.readouterr().out


def test_labels_are_names_or_a_file(work: Path, capsys: Output) -> None:
    names = ",".join(f"action {number}" for number in range(22))
    assert run(["convert", "oadtr_b1.pth", "--no-class-token", "--labels", names]) == 0
    assert load_checkpoint(work / "oadtr_b1.cotrans.safetensors").class_names[3] == "action 3"
    assert run(["convert", "oadtr_b1.pth", "--no-class-token", "--labels", "a,,b", "--force"]) == 2


def test_stream_says_what_to_do_with_a_regular_model(work: Path, capsys: Output) -> None:
    assert run(["stream", "x.npy", "--model", "oadtr_b1.pth"]) == 3  # there is no such source
    (work / "x.wav").write_bytes(b"RIFF")
    assert run(["stream", "x.wav", "--model", "oadtr_b1.pth"]) == 5
    assert "run `cotrans convert oadtr_b1.pth` first" in capsys.readouterr().err


def oadtr_for(width: int, path: Path) -> None:
    """An OadTR of one block that takes rows of `width` numbers, in the official file format."""
    source = torch.load("oadtr_b1.pth", weights_only=False)
    key = next(name for name, value in source["model"].items() if value.dim() == 2 and value.shape[1] == 36)
    torch.manual_seed(0)
    source["model"][key] = 0.05 * torch.randn(source["model"][key].shape[0], width)
    source["args"].dim_feature = width
    torch.save(source, path)


def test_a_converted_model_plays_a_video(work: Path, capsys: Output) -> None:
    """Must show: convert, then stream a video, with the features named once and kept in the checkpoint."""
    from tests.features.made_recordings import write_video

    write_video(work / "video.mp4", seconds=1.5)
    oadtr_for(4096, work / "two_stream.pth")
    known = ["--no-class-token", "--features", "resnet50+resnet50-flow", "--random-weights", "--hop", "0.5"]
    assert run(["convert", "two_stream.pth", *known]) == 0
    features = load_checkpoint(work / "two_stream.cotrans.safetensors").features
    assert features is not None and features.width == 4096 and all(part.weights == "random" for part in features.parts)
    capsys.readouterr()
    assert run(["info", "two_stream.cotrans.safetensors"]) == 0
    assert "resnet50+resnet50-flow, one row every 0.5 s, RANDOM WEIGHTS" in capsys.readouterr().out
    arguments = ["stream", "video.mp4", "--model", "two_stream.cotrans.safetensors", "--fast", "--plain"]
    assert run([*arguments, "--format", "jsonl"]) == 0
    said = capsys.readouterr()
    first = said.out.splitlines()
    assert "RANDOM WEIGHTS in its features" in said.err
    assert len(first) == 3 and all("label" in json.loads(line) for line in first)
    # A file that was converted without them takes them on the command line of stream.
    assert run(["convert", "two_stream.pth", "--no-class-token", "--out", "bare.safetensors"]) == 0
    capsys.readouterr()
    bare = ["stream", "video.mp4", "--model", "bare.safetensors", "--fast", "--format", "jsonl", "-q"]
    names = ",".join(f"action {number}" for number in range(22))
    assert run([*bare, "--labels", names, *known[1:]]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["label"].startswith("action")
    assert run([*bare]) == 3 and "name them with --features" in capsys.readouterr().err
    assert run([*arguments, "--features", "logmel"]) == 2 and "leave --features out" in capsys.readouterr().err
    assert run([*bare, "--features", "logmel"]) == 4 and "the model takes rows of 4096" in capsys.readouterr().err
