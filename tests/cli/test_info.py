"""`cotrans info` for every kind of file that cotrans reads."""

from __future__ import annotations

import json
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest
import torch

from cotrans_cli.main import run
from pipelines.checkpoints import save_checkpoint
from pipelines.features.spec import ExtractorSpec, FeatureSpec
from pipelines.metrics.rejection import Rejection
from pipelines.model import ContinualTransformer, ModelConfig
from pipelines.model.snapshot import save_state

Output = pytest.CaptureFixture[str]
CONFIG = ModelConfig(input_width=5, width=8, heads=2, feed_forward=12, blocks=2, window=4, classes=3)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    features = FeatureSpec((ExtractorSpec("logmel", "audio", 5, 0.025),), hop=0.25)
    save_checkpoint(
        tmp_path / "m.safetensors", ContinualTransformer(CONFIG), ("a", "b", "c"), features, {"source": "x"}
    )
    return tmp_path / "m.safetensors"


def told(path: Path, capsys: Output) -> dict[str, object]:
    assert run(["info", str(path), "--json"]) == 0
    value: dict[str, object] = json.loads(capsys.readouterr().out)
    assert run(["info", str(path)]) == 0
    text = capsys.readouterr().out
    assert str(value["kind"]) in text and str(value["summary"]) in text
    return value


def test_checkpoint(checkpoint: Path, capsys: Output) -> None:
    value = told(checkpoint, capsys)
    assert value["kind"] == "checkpoint" and value["config"] == CONFIG.to_dict()
    assert value["class_names"] == ["a", "b", "c"] and value["provenance"] == {"source": "x"}
    assert value["parameters"] == sum(p.numel() for p in ContinualTransformer(CONFIG).parameters())
    assert run(["info", str(checkpoint)]) == 0
    assert "logmel, one row every 0.25 s" in capsys.readouterr().out


def test_a_trained_model_says_how_it_did(tmp_path: Path, capsys: Output) -> None:
    provenance = {"recipe": {"training": {"seed": 3}}, "epoch": 6, "validation": {"map": 0.9149}}
    save_checkpoint(tmp_path / "m.safetensors", ContinualTransformer(CONFIG), ("a", "b", "c"), None, provenance)
    assert run(["info", str(tmp_path / "m.safetensors")]) == 0
    assert "seed 3, epoch 6, validation map 0.9149, the recipe is in --json" in capsys.readouterr().out


def test_a_built_in_model_says_how_it_was_trained(capsys: Output) -> None:
    assert run(["info", "spoken-digits"]) == 0
    text = capsys.readouterr().out
    assert "dataset digits" in text and "seed 1, epoch 10" in text
    assert "{" not in text and "none positions" not in text
    assert run(["info", "spoken-digits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["provenance"]["recipe"]["data"]["options"]["fold"] == "none"


def test_what_a_stream_makes_of_a_model(tmp_path: Path, capsys: Output) -> None:
    """When the answer is "none of these", what is smoothed, and what is left out."""

    def lines(name: str | Path) -> dict[str, str]:
        assert run(["info", str(name)]) == 0
        pairs = (line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
        return {name: text.strip() for name, text in pairs}

    rule = Rejection("energy", -2.5)
    path = tmp_path / "m.safetensors"
    save_checkpoint(
        path, ContinualTransformer(CONFIG), ("a", "b", "c"), None, {}, rejection=rule, smoothing=0.5, least=0.75
    )
    told = lines(path)
    assert told["none of these"] == "where the evidence for the classes (energy) is below -2.5"
    assert told["smoothing"].startswith("0.5 s") and told["least"].startswith("0.75 s")
    assert "heads 2" in told["config"] and "decoder" not in told["config"] and "_" not in told["config"]
    assert lines("spoken-digits")["none of these"] == "what the class background is for"
    assert "smoothing" not in lines("spoken-digits")
    told = lines("objects")
    assert "below 2.64; for 38 of the classes it takes more" in told["none of these"]
    assert told["class names"].endswith("and 960 more")
    assert "the mean over 30 rows, is below -0.5" in lines("golf-swing")["none of these"]
    save_checkpoint(path, ContinualTransformer(CONFIG), ("a", "b", "c"), None, {})
    assert lines(path)["none of these"].startswith("never the answer")


def test_an_exported_step(checkpoint: Path, tmp_path: Path, capsys: Output) -> None:
    step = tmp_path / "step.onnx"
    assert run(["export", str(checkpoint), "--out", str(step)]) == 0
    capsys.readouterr()
    value = told(step, capsys)
    assert value["kind"] == "exported step" and value["class_names"] == ["a", "b", "c"]
    assert value["config"] == CONFIG.to_dict() and "window 4" in str(value["summary"])
    (tmp_path / "other.onnx").write_bytes(b"no graph")
    assert run(["info", str(tmp_path / "other.onnx")]) == 5
    assert "other.onnx is not an ONNX graph" in capsys.readouterr().err


def test_lengths_have_few_digits(tmp_path: Path, capsys: Output) -> None:
    with wave.open(str(tmp_path / "third.wav"), "wb") as file:
        file.setparams((1, 2, 22050, 0, "NONE", ""))
        file.writeframes(bytes(2 * 7350 + 2))
    assert run(["info", str(tmp_path / "third.wav")]) == 0
    assert "0.333379 s" in capsys.readouterr().out
    assert told(tmp_path / "third.wav", capsys)["duration"] == pytest.approx(7351 / 22050, abs=1e-9)


def test_stream_state(tmp_path: Path, capsys: Output) -> None:
    model = ContinualTransformer(CONFIG)
    model.snapshot(model.initial_state(3), tmp_path / "s.safetensors")
    value = told(tmp_path / "s.safetensors", capsys)
    assert value["kind"] == "stream state" and value["rows"] == 3
    extra = {"sources": '["talk.mp4"]', "clock": '{"rows": 7}', "name": "plain text"}
    save_state(model.initial_state(1), CONFIG, tmp_path / "s.safetensors", extra)
    told_extra = told(tmp_path / "s.safetensors", capsys)["extra"]
    assert told_extra == {"sources": ["talk.mp4"], "clock": {"rows": 7}, "name": "plain text"}


def test_built_in_models_and_runs_by_name(tmp_path: Path, checkpoint: Path, capsys: Output) -> None:
    """As `stream` and `evaluate` take them; `flops` does the same."""
    (tmp_path / "run").mkdir()
    shutil.copy(checkpoint, tmp_path / "run" / "best.safetensors")
    assert told(Path("sound-events"), capsys)["kind"] == "checkpoint"
    assert told(tmp_path / "run", capsys)["class_names"] == ["a", "b", "c"]
    for name in ("spoken-digits", str(tmp_path / "run")):
        assert run(["flops", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["config"]["blocks"] in (2, 3)
    for command in ("info", "flops"):
        assert run([command, "sound-evnts"]) == 2
        assert "did you mean 'sound-events'?" in capsys.readouterr().err


def test_a_file_that_is_nothing_is_named_once(tmp_path: Path, capsys: Output) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("# Notes about a video\n")
    assert run(["info", str(text)]) == 3
    assert capsys.readouterr().err.count(str(text)) == 1
    assert run(["convert", str(text)]) == 5
    error = capsys.readouterr().err
    assert "(it begins with '# Notes abou')" in error and "b'" not in error


def test_models_of_other_projects(golden_dir: Path, capsys: Output) -> None:
    value = told(golden_dir / "oadtr_decoder.pth", capsys)
    assert value["library"] == "OadTR" and "decoder of 2 blocks" in str(value["summary"])
    assert value["beside"] == ["optimizer", "lr_scheduler", "epoch", "args"]
    value = told(golden_dir / "oadtr_b1.pth", capsys)
    assert "--no-class-token" in str(value["needs"])
    value = told(golden_dir / "continual_b2.pth", capsys)
    assert value["library"] == "continual.TransformerEncoder" and "--window" in str(value["needs"])


def test_unknown_weights(tmp_path: Path, capsys: Output) -> None:
    torch.save({"a.weight": torch.zeros(2, 3)}, tmp_path / "w.pt")
    value = told(tmp_path / "w.pt", capsys)
    assert "does not know" in str(value["summary"]) and value["tensors"] == {"a.weight": [2, 3]}


def test_several_encoders(tmp_path: Path, capsys: Output) -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16).state_dict()
    both = {f"{name}.layers.0.{key}": value for name in ("audio", "video") for key, value in layer.items()}
    torch.save(both, tmp_path / "w.pt")
    assert "choose one with --prefix (audio., video.)" in str(told(tmp_path / "w.pt", capsys)["needs"])


def test_features(tmp_path: Path, capsys: Output) -> None:
    np.save(tmp_path / "f.npy", np.zeros((7, 5), dtype=np.float32))
    value = told(tmp_path / "f.npy", capsys)
    assert value["kind"] == "features" and value["rows"] == 7 and value["width"] == 5


def test_features_of_several_extractors_are_told_in_words(tmp_path: Path, capsys: Output) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(bytes(32000))
    names = "logmel+speech"
    assert run(["extract", str(tmp_path / "a.wav"), "--features", names, "--out", str(tmp_path / "f")]) == 0
    capsys.readouterr()
    assert run(["info", str(tmp_path / "f" / "a.npy")]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("spec ")]
    assert line.split(None, 1)[1].startswith("logmel (192 wide, sample rate 16000, n mels 64, ")
    assert " + speech (96 wide, weights 2e3f7e1c), hop 0.08 s, causal" in line
    assert not set("{}[]'\"") & set(line)


def test_media(tmp_path: Path, capsys: Output) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(16000))
    value = told(tmp_path / "a.wav", capsys)
    assert value["kind"] == "media" and value["duration"] == 1.0
    assert run(["info", str(tmp_path / "a.wav")]) == 0
    text = capsys.readouterr().out
    assert "duration  1 s" in text and "rate 8000 Hz" in text and "16,044 bytes" in text


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("none.pth", None, 3, "there is no file"),
        ("empty.pth", b"", 5, "is empty"),
        ("text.txt", b"hello, world", 3, "no kind of file that cotrans reads"),
        ("half.safetensors", "half", 5, "damaged, truncated or not a safetensors file"),
        ("own.json", b"{}", 3, "not a feature manifest"),
    ],
)
def test_refused(
    tmp_path: Path, checkpoint: Path, capsys: Output, name: str, content: bytes | str | None, code: int, message: str
) -> None:
    path = tmp_path / name
    if content == "half":
        path.write_bytes(checkpoint.read_bytes()[:2000])
    elif isinstance(content, bytes):
        path.write_bytes(content)
    assert run(["info", str(path)]) == code
    printed = capsys.readouterr()
    assert printed.out == "" and message in printed.err and len(printed.err.splitlines()) == 1


def test_folder_and_damaged_copy(tmp_path: Path, checkpoint: Path, capsys: Output) -> None:
    assert run(["info", str(tmp_path)]) == 3
    assert "is a folder" in capsys.readouterr().err
    copy = tmp_path / "copy.safetensors"
    shutil.copy(checkpoint, copy)
    data = copy.read_bytes().replace(b'\\"blocks\\": 2', b'\\"blocks\\": 1')
    copy.write_bytes(data)
    assert run(["info", str(copy)]) == 5
    assert "is not part of the model" in capsys.readouterr().err
