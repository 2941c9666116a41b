"""`--precision` of stream, evaluate and flops as a user gives it."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cotrans
from cotrans_cli.main import run
from pipelines.errors import UsageError
from pipelines.model.linear import int8, packing
from pipelines.model.precision import PRECISIONS
from tests.evaluation.evaluation_problems import write_clips
from tests.evaluation.evaluation_problems import write_model as write_clip_model
from tests.streaming.made_streams import played, scores_of, write_model, write_rows

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CONFIG", str(tmp_path / "config.toml"))


def scores(capsys: Output, *arguments: Any) -> np.ndarray[Any, Any]:
    common = ("stream", *arguments, "--fast", "--scores", "--format", "jsonl", "--quiet", "--device", "cpu")
    assert run([str(argument) for argument in common]) == 0
    return np.array([json.loads(line)["scores"] for line in capsys.readouterr().out.splitlines()])


def one_line(capsys: Output, *arguments: Any) -> tuple[int, str]:
    code = run([str(argument) for argument in arguments])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return code, lines[0]


@pytest.mark.parametrize("blocks", [1, 2])
def test_stream(tmp_path: Path, capsys: Output, blocks: int) -> None:
    model = write_model(tmp_path / "model.safetensors", blocks=blocks)
    write_rows(tmp_path / "a.npy")
    common = (tmp_path / "a.npy", "--model", model)
    exact = scores(capsys, *common)
    assert np.array_equal(scores(capsys, *common, "--precision", "float32"), exact)
    for precision, bound in (("float16", 0.01), ("int8", 0.05)):
        packed = scores(capsys, *common, "--precision", precision)
        assert 0 < np.abs(packed - exact).max() < bound * np.abs(exact).max()


def test_a_stream_goes_on_in_another_precision(tmp_path: Path) -> None:
    path, state = write_model(tmp_path / "model.safetensors", blocks=2), tmp_path / "state"
    write_rows(tmp_path / "a.npy")
    exact, packed = (cotrans.open_model(path, precision=precision) for precision in PRECISIONS[::2])
    whole = scores_of(played([tmp_path / "a.npy"], exact))
    with cotrans.open_stream(str(tmp_path / "a.npy"), exact, fast=True, snapshot=state, every=1e-9) as stream:
        list(islice(stream, 17))
    after = played([tmp_path / "a.npy"], packed, resume=state)
    first = after[0].index
    assert 0 < first <= 17
    assert 0 < np.abs(scores_of(after) - whole[first:]).max() < 0.05 * np.abs(whole).max()


def test_evaluate_says_what_it_costs(tmp_path: Path, capsys: Output) -> None:
    clips, model = write_clips(tmp_path / "clips"), write_clip_model(tmp_path / "m.safetensors")
    common = ["evaluate", "--dataset", "folder", "--root", str(clips), "-m", str(model), "--device", "cpu"]
    assert run([*common, "--json"]) == 0
    exact = json.loads(capsys.readouterr().out)["models"][0]
    assert exact["precision"] is None
    assert run([*common, "--precision", "int8", "--mode", "all", "--json"]) == 0
    packed = json.loads(capsys.readouterr().out)["models"][0]
    assert packed["cost"] == exact["cost"]  # counts are of the model, whatever its weights
    loss = packed["precision"]
    assert loss["precision"] == "int8" and loss["float32_score"] == exact["value"]
    assert 0 < loss["largest_difference"] < 0.05 and loss["same_class"] > 0.95
    assert run([*common, "--precision", "int8"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("m in int8: accuracy"))
    assert f"in float32 {100 * exact['value']:.2f} %; probabilities differ by at most 0.0" in line
    code, line = one_line(
        capsys, *common, "--precision", "int8", "--shard", "1/2", "--out", tmp_path / "part.json", "--quiet"
    )
    assert code == 2 and line.endswith("leave --shard out")


def test_flops(tmp_path: Path, capsys: Output) -> None:
    model = str(write_model(tmp_path / "model.safetensors"))
    assert run(["flops", model, "--measure", "--precision", "int8", "--json"]) == 0
    packed = json.loads(capsys.readouterr().out)
    assert packed["time"]["precision"] == "int8" and packed["time"]["step"]["microseconds"] > 0
    assert run(["flops", model, "--json"]) == 0
    exact = json.loads(capsys.readouterr().out)
    assert {**packed, "time": None} == exact
    code, line = one_line(capsys, "flops", model, "--precision", "int8")
    assert code == 2 and line.endswith("add --measure")
    code, line = one_line(capsys, "flops", "--n", 8, "--d", 8, "--measure", "--precision", "float16")
    assert code == 2 and line.endswith("add FILE or --model NAME")


def test_a_machine_without_the_kernel(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    def saturating(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (rows.long() @ weight.long()).clamp(-(2**15), 2**15 - 1).int()

    monkeypatch.setattr(int8.torch, "_int_mm", saturating)
    monkeypatch.setattr(packing, "is_better_here", lambda: False)
    model = write_model(tmp_path / "model.safetensors")
    write_rows(tmp_path / "a.npy")
    code, line = one_line(
        capsys, "stream", tmp_path / "a.npy", "--model", model, "--precision", "int8", "--device", "cpu"
    )
    assert code == 6 and "overflow" in line and line.endswith("use --precision float32")
    code, line = one_line(capsys, "stream", tmp_path / "a.npy", "--precision", "int4")
    assert code == 2 and "float32, float16, int8" in line


def test_python(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.safetensors")
    write_rows(tmp_path / "a.npy")
    model = cotrans.open_model(path, precision="int8", device="cpu")
    with cotrans.open_stream(str(tmp_path / "a.npy"), model, fast=True) as stream:
        assert len(list(stream)) == 40
    with pytest.raises(UsageError, match="give it to open_model"):
        cotrans.open_stream(str(tmp_path / "a.npy"), model, precision="int8")
    with pytest.raises(UsageError, match="float32, float16, int8"):
        cotrans.open_model(path, precision="int4")  # type: ignore[arg-type]
    clips, clip_model = write_clips(tmp_path / "clips"), write_clip_model(tmp_path / "m.safetensors")
    result = cotrans.evaluate(clip_model, "folder", clips, precision="float16", device="cpu")
    loss = result.comparison.rows[0].first.loss
    assert loss is not None and loss.precision == "float16" and loss.largest_difference < 0.01
