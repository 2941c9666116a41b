"""Exported steps that somebody edited: refused with one line, before anything is allocated by what they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotrans_cli.main import run
from pipelines.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from pipelines.errors import CheckpointError
from tests.model.small import SIZES, small_model
from tests.streaming.made_streams import write_model, write_rows

onnx = pytest.importorskip("onnx")
Output = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("no_settings")

WRONG = {
    "input_width": ("-1", "0", "7", "99999999999"),
    "window": ("-1", "9" * 5000),
    "lag": ("-5", "99999999999"),
    "smoothing": ("NaN", "1e400", "1e300", "-1"),
    "class_names": ("[]", '["a"]', json.dumps(["x"] * 100_000)),
    "version": ("9" * 5000, "2"),
    "samples": ("0", "-1", "5"),
    "sample_rate": ("16000",),
}


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("step")
    write_rows(folder / "rows.npy", 20)
    model = write_model(folder / "model.safetensors")
    assert run(["export", str(model), "--out", str(folder / "step.onnx")]) == 0
    return folder / "step.onnx"


def refused(step: Path, change: Callable[[Any], None], capsys: Output) -> None:
    graph = onnx.load(str(step))
    change(graph)
    edited = step.with_name("edited.onnx")
    onnx.save(graph, str(edited))
    capsys.readouterr()
    code = run(["stream", str(step.with_name("rows.npy")), "--model", str(edited), "--fast"])
    printed = capsys.readouterr().err
    assert code == 5 and len(printed.splitlines()) == 1 and "a bug" not in printed, printed


@pytest.mark.parametrize("name", WRONG)
def test_descriptions_that_cannot_be(step: Path, name: str, capsys: Output) -> None:
    for value in WRONG[name]:

        def change(graph: Any, value: str = value) -> None:
            next(entry for entry in graph.metadata_props if entry.key == name).value = value

        refused(step, change, capsys)


def test_states_that_have_no_shape(step: Path, capsys: Output) -> None:
    def change(graph: Any, **size: Any) -> None:
        last = graph.graph.input[2].type.tensor_type.shape.dim[-1]
        for key, value in size.items():
            setattr(last, key, value)

    for size in ({"dim_value": 1 << 40}, {"dim_param": "any"}, {"dim_value": -3}, {"dim_value": 9}):
        refused(step, lambda graph, size=size: change(graph, **size), capsys)  # type: ignore[misc]


def test_a_checkpoint_that_is_smoothed_for_ever(tmp_path: Path) -> None:
    model = tmp_path / "model.safetensors"
    save_checkpoint(model, small_model(blocks=1), tuple("abcdefghij"[: SIZES["classes"]]), smoothing=1e300)
    with pytest.raises(CheckpointError, match="cannot be smoothed over"):
        load_checkpoint(model)
