"""Every command takes models of every kind: trained, evaluated, described, counted, streamed, resumed, converted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cotrans_cli.main import run
from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.checkpoints.projects.lstr_reference import LstrReference
from pipelines.model import PerFrameModel, RecurrentModel
from pipelines.streaming import open_model
from tests.checkpoints.made_lstr import lstr_weights
from tests.datasets.dataset_builders import write_thumos_lstr
from tests.model.test_lstr import SMALL
from tests.streaming.test_snapshots import broken_off

Output = pytest.CaptureFixture[str]
MODELS = {
    "miniroad": (RecurrentModel, ("-s", "model.embedding=12", "-s", "model.width=8", "-s", "model.window=16")),
    "per-frame": (PerFrameModel, ("-s", "model.embedding=12")),
}


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))


def cotrans(capsys: Output, *arguments: object) -> str:
    code = run([*map(str, arguments)])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return printed.out


def trained(root: Path, out: Path, model: str, capsys: Output, *more: str) -> Path:
    data = ("--dataset", "thumos14", "--root", root, "--validate-on", "test", "--no-baseline")
    short = ("--epochs", 1, "-s", "training.chunk=20", "--out", out)
    cotrans(capsys, "train", *data, "--model", model, *MODELS[model][1], *short, *more)
    return out / "best.safetensors"


@pytest.mark.parametrize("name", MODELS)
def test_a_detection_model_of_another_kind_goes_all_the_way(name: str, tmp_path: Path, capsys: Output) -> None:
    root = tmp_path / "thumos14"
    write_thumos_lstr(root, {"rgb": 5, "flow": 3})
    file = trained(root, tmp_path / "run", name, capsys)
    model = load_checkpoint(file).model
    assert isinstance(model, MODELS[name][0])

    table = cotrans(capsys, "evaluate", "-c", file, "--dataset", "thumos14", "--root", root, "--mode", "all", "--json")
    result: dict[str, Any] = json.loads(table)["models"][0]
    assert result["agreement"]["relative"] < 2e-5
    counted = json.loads(cotrans(capsys, "flops", file, "--json"))
    assert counted["step_macs"] == counted["step_executed"] == result["cost"]["step_macs"]
    assert counted["window_macs"] == counted["window_executed"]
    assert json.loads(cotrans(capsys, "info", file, "--json"))["config"]["kind"] == model.config.kind

    rows = np.random.default_rng(0).normal(size=(23, 8)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    stream = ("stream", tmp_path / "rows.npy", "--model", file, "--fast", "--format", "jsonl", "--scores")
    lines = [json.loads(line) for line in cotrans(capsys, *stream).splitlines()]
    with torch.inference_mode():
        wanted, _ = model.steps(torch.from_numpy(rows)[None], model.initial_state())
    streamed = np.array([line["scores"] for line in lines])
    np.testing.assert_allclose(streamed, wanted[0].numpy(), rtol=1e-4, atol=1e-5)
    assert not any(line["warmup"] for line in lines)
    kept = tmp_path / "state"
    assert len(cotrans(capsys, *stream, "--snapshot", kept).splitlines()) == 23
    assert cotrans(capsys, *stream, "--resume", kept) == ""  # it was at the end

    cotrans(capsys, "convert", file, "--out", tmp_path / "copy.safetensors")
    assert load_checkpoint(tmp_path / "copy.safetensors").model.config == model.config


def test_a_converted_lstr_goes_all_the_way(tmp_path: Path, capsys: Output) -> None:
    """Converted, described, counted, evaluated beside another model, streamed, stopped and resumed within a phase."""
    root = tmp_path / "thumos14"
    write_thumos_lstr(root, {"rgb": 5, "flow": 3})
    config = replace(SMALL, input_width=8, classes=22, include_work=True)
    weights = lstr_weights(config)
    torch.save({"epoch": 3, "model_state_dict": weights, "optimizer_state_dict": {}}, tmp_path / "testra.pth")
    file = tmp_path / "testra.safetensors"
    memories = ("--fps", 1, "--long-seconds", 15, "--long-rate", 3, "--work-seconds", 4)
    kind = ("--heads", 2, "--include-work", "--no-long-positions", "--decay", 1)
    cotrans(capsys, "convert", tmp_path / "testra.pth", *memories, *kind, "--out", file)
    other = trained(root, tmp_path / "run", "miniroad", capsys)

    data = ("--dataset", "thumos14", "--root", root, "--mode", "all", "--json")
    rows = json.loads(cotrans(capsys, "evaluate", "-c", file, "-c", other, *data))["models"]
    assert len(rows) == 2
    assert all(row["agreement"]["relative"] < 2e-5 for row in rows)
    counted = json.loads(cotrans(capsys, "flops", file, "--json"))
    assert counted["step_macs"] == counted["step_executed"] == rows[0]["cost"]["step_macs"]

    features = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    np.save(tmp_path / "rows.npy", features)
    stream = ("--model", file, "--fast", "--format", "jsonl", "--scores")
    whole = [json.loads(line) for line in cotrans(capsys, "stream", tmp_path / "rows.npy", *stream).splitlines()]
    wanted = torch.cat([o.logits for o in LstrReference(weights, config).along(torch.from_numpy(features), range(40))])
    streamed = torch.tensor([line["scores"] for line in whole])
    torch.testing.assert_close(streamed, wanted, rtol=1e-4, atol=1e-5)
    before, after = broken_off([tmp_path / "rows.npy"], open_model(str(file)), tmp_path / "state", 17)
    joined = before[: after[0].index] + after
    np.testing.assert_allclose([prediction.scores for prediction in joined], streamed.numpy(), rtol=1e-5, atol=1e-6)


def test_training_goes_on_from_a_recurrent_model(tmp_path: Path, capsys: Output) -> None:
    root = tmp_path / "thumos14"
    write_thumos_lstr(root, {"rgb": 5, "flow": 3})
    first = trained(root, tmp_path / "first", "miniroad", capsys)
    second = trained(root, tmp_path / "second", "miniroad", capsys, "--init", str(first))
    assert load_checkpoint(second).config == load_checkpoint(first).config


def test_what_another_kind_does_not_have_is_said(tmp_path: Path, capsys: Output) -> None:
    root = tmp_path / "thumos14"
    write_thumos_lstr(root, {"rgb": 5, "flow": 3})
    data = ("--dataset", "thumos14", "--root", str(root), "--validate-on", "test", "--no-baseline")
    for arguments, message in (
        (("--model", "miniroad", "-s", "model.heads=2"), "a recurrent model has no setting 'heads'"),
        (("--model", "miniroad", "--sampling", "window"), "no window that it is equal to"),
        (("--model", "per-frame", "--window", "4"), "a per-frame model has no setting 'window'"),
    ):
        assert run(["train", *data, *arguments, "--out", str(tmp_path / "out")]) == 4
        assert message in capsys.readouterr().err


def test_flops_of_the_published_size(capsys: Output) -> None:
    counted = json.loads(cotrans(capsys, "flops", "--model", "miniroad", "--json"))
    assert counted["macs"]["counted"] == counted["macs"]["executed"] == 15_751_168
    assert [row["module"] for row in counted["modules"]] == ["embedding", "GRU layer 1", "classifier"]
