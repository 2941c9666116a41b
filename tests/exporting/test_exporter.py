"""Precisions, formats, the check before a file is kept, and one clear line for everything that cannot be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import cotrans
from cotrans_cli.main import run
from pipelines.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from pipelines.errors import (
    CheckpointError,
    ConfigurationError,
    CotransError,
    InputError,
    MissingDependencyError,
    UsageError,
)
from pipelines.exporting import verification
from pipelines.exporting.exporter import ExportOptions, export_model
from pipelines.exporting.runtime import OnnxStep
from pipelines.exporting.verification import TOLERANCES
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.metrics.rejection import Rejection
from pipelines.model import ContinualTransformer, ModelConfig

pytestmark = pytest.mark.slow

CLASSES = ("bark", "rain", "Wörter")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that says everything that a checkpoint can say."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    spec = StreamFactory(FeatureRequest("logmel", hop=0.1)).prototype().spec
    torch.manual_seed(0)
    network = ContinualTransformer(
        ModelConfig(input_width=spec.width, width=32, heads=2, feed_forward=32, window=5, blocks=1, classes=3)
    )
    rule = Rejection("both", -0.5, 1.5, early=(2.0, 1.0), by_class=(-0.5, 0.5, -0.5))
    save_checkpoint(
        path, network.eval(), CLASSES, spec, score_kind="sigmoid", rejection=rule, smoothing=0.5, least=0.75
    )
    return path


def test_the_file_says_what_the_checkpoint_says(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.onnx"
    assert run(["export", str(model), "--out", str(out), "--opset", "20", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["inputs"] == ["token", "position", "key_0", "value_0"]
    assert report["outputs"] == ["scores", "new_position", "new_key_0", "new_value_0"]
    assert report["difference"] <= 1e-5 and report["steps"] == 15 and report["opset"] == 20
    graph = onnx.load(out)
    assert [opset.version for opset in graph.opset_import if not opset.domain] == [20]
    metadata = {entry.key: entry.value for entry in graph.metadata_props}
    assert json.loads(metadata["class_names"]) == list(CLASSES)
    assert (metadata["hop"], metadata["window"], metadata["score_kind"]) == ("0.1", "5", "sigmoid")
    assert str(model.parent) not in out.read_bytes().decode("latin-1").replace(metadata["name"], "")
    checkpoint, said = load_checkpoint(model), OnnxStep(out).description
    assert (said.features, said.rejection, said.smoothing) == (checkpoint.features, checkpoint.rejection, 0.5)
    assert said.least == 0.75
    assert said.difference == report["difference"]


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_weights_of_fewer_bits(precision: str, model: Path, tmp_path: Path) -> None:
    exported = cotrans.export(model, tmp_path / "small.onnx", precision=precision)
    assert 1e-7 < exported.verification.relative <= TOLERANCES[precision]
    weights = {tensor.name: tensor for tensor in onnx.load(exported.path).graph.initializer}
    kinds = {onnx.TensorProto.FLOAT16, *([onnx.TensorProto.INT8] if precision == "int8" else [])}
    packed = sum(int(np.prod(tensor.dims)) for tensor in weights.values() if tensor.data_type in kinds)
    assert kinds <= {tensor.data_type for tensor in weights.values()}
    network = load_checkpoint(model).model
    assert packed == sum(weight.numel() for name, weight in network.named_parameters() if _is_packed(name, weight))
    step, rows = OnnxStep(exported.path), np.random.default_rng(0).normal(size=(2, 8, 192)).astype(np.float32)
    rows[1] *= 100.0  # a loud stream must not make a quiet one coarse
    together, alone = step.initial_state(2), step.initial_state(1)
    for token in rows.transpose(1, 0, 2):
        both, together = step(token, together)
        single, alone = step(token[:1], alone)
        np.testing.assert_allclose(both[0], single[0], rtol=2e-2, atol=2e-3)


def _is_packed(name: str, weight: torch.Tensor) -> bool:
    return weight.dim() == 2 and "classifier" not in name and "positions" not in name


def test_torch_export_runs_without_this_package(model: Path, tmp_path: Path) -> None:
    exported = export_model(model, tmp_path / "step.pt2", ExportOptions(format="torch-export"))
    assert exported.verification.relative <= 1e-5
    extra = {"cotrans.json": ""}
    program = torch.export.load(exported.path, extra_files=extra).module()
    assert json.loads(json.loads(extra["cotrans.json"])["class_names"]) == list(CLASSES)
    scores, position, *_ = program(
        torch.zeros(3, 192), torch.zeros(3, dtype=torch.long), *[torch.zeros(3, 2, 5, 16) for _ in range(2)]
    )
    assert scores.shape == (3, 3) and position.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "options", ["", "frames=4,level=relative,window=0.2", "statistics=min+slope,sample_rate=8000,n_mels=20,window=0.03"]
)
def test_sound_in_scores_out(options: str, tmp_path: Path) -> None:
    """In the cheaper format, which is traced from the same step; the last also as ONNX."""
    chosen = dict(option.split("=") for option in options.split(",") if option)
    spec = StreamFactory(FeatureRequest("logmel", hop=0.1, options=chosen)).prototype().spec
    torch.manual_seed(0)
    network = ContinualTransformer(
        ModelConfig(input_width=spec.width, width=16, heads=2, feed_forward=16, window=5, blocks=1, classes=3)
    )
    path = tmp_path / "model.safetensors"
    save_checkpoint(path, network.eval(), CLASSES, spec)
    exported = cotrans.export(path, tmp_path / "step.pt2", format="torch-export", with_features=True)
    assert exported.verification.relative <= 1e-4
    if "slope" in options:
        exported = cotrans.export(path, tmp_path / "step.onnx", with_features=True)
        assert exported.signature.inputs[0] == "samples" and exported.description.samples == 800
        assert cotrans.open_model(exported.path).model.config.input_width == 800


def test_features_that_have_no_graph(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"musicnn.* has no graph, only logmel has"):
        cotrans.export("music-genre", tmp_path / "out.onnx", with_features=True)


def test_what_differs_is_not_kept(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(verification.TOLERANCES, "float32", 0.0)  # onnxruntime sums in another order
    out = tmp_path / "step.onnx"
    out.write_text("before")
    with pytest.raises(CheckpointError, match="nothing was written"):
        export_model(model, out, ExportOptions(format="onnx"))
    assert out.read_text() == "before" and list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"format": "tflite"}, UsageError, "choose from onnx, torch-export"),
        ({"precision": "int4"}, UsageError, "choose from float32, float16, int8"),
        ({"opset": 17}, UsageError, "--opset 17: choose from 18 to"),
        ({"opset": 99}, UsageError, "--opset 99: choose from 18 to"),
        ({"format": "torch-export", "opset": 18}, UsageError, "--opset is about ONNX"),
        ({"format": "torch-export", "precision": "int8"}, UsageError, "for int8 use --format onnx"),
    ],
)
def test_mistakes(options: dict[str, object], error: type[CotransError], says: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=says):
        cotrans.export("music-genre", tmp_path / "out.onnx", **options)
    assert not list(tmp_path.iterdir())


def test_a_model_that_is_not_there_and_a_place_that_cannot_be(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="music-genre"):
        export_model("music-gendre", tmp_path / "out.onnx")
    with pytest.raises(UsageError, match="input"):
        export_model(model, model)
    with pytest.raises(InputError, match="folder"):
        export_model(model, tmp_path)


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_packages_that_are_not_installed(
    package: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"{package} is not installed: pip install 'cotrans\[onnx\]'"):
        export_model(model, tmp_path / "out.onnx")


def test_files_that_are_no_steps(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no graph")
    with pytest.raises(CheckpointError, match="not an ONNX graph"):
        OnnxStep(tmp_path / "text.onnx")
    shape = [1, 2]
    value = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("a", "b")]
    node = onnx.helper.make_node("Relu", ["a"], ["b"])
    other = onnx.helper.make_model(
        onnx.helper.make_graph([node], "other", value[:1], value[1:]),
        opset_imports=[onnx.helper.make_opsetid("", 18)],
        ir_version=9,
    )
    onnx.save(other, tmp_path / "other.onnx")
    with pytest.raises(CheckpointError, match="not a step that `cotrans export` wrote"):
        OnnxStep(tmp_path / "other.onnx")
