"""From names and specifications to streams: options, weights and what is said before any work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import CotransError, InputError, MissingDependencyError, UsageError
from pipelines.features.extraction.run import extract
from pipelines.features.files.feature_files import read_features
from pipelines.features.request import ONLY, FeatureRequest, parse_options, parse_weights
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from tests.features.extraction_problems import ROOT, options, write_folder
from tests.features.made_recordings import write_video


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path)


def test_missing_weights_and_wrong_settings_are_said_before_any_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    for changed, kind, said in (
        (options("vggish"), MissingDependencyError, "cotrans weights get vggish-audioset"),
        (options("resnet50"), MissingDependencyError, "cotrans weights get resnet50-imagenet"),
        (options("vggish", options={"postprocess": "true"}), MissingDependencyError, "vggish-audioset-pca"),
        (options("vggish", weights={ONLY: "absent.pth"}), InputError, "there is no file absent.pth"),
        (options("vggish", weights={ONLY: "/absent/weights"}), InputError, "there is no file /absent/weights"),
        (options("vggish", weights={ONLY: "absent"}), UsageError, "neither a file nor a name"),
        (options("logmel", layout="h5"), UsageError, "unknown layout"),
        (options("logmel", dtype="int8"), UsageError, "unknown dtype"),
        (options("logmel", workers=0), UsageError, "--workers must be from 1 to"),
        (options("logmel", options={"colour": "red"}), UsageError, "no extractor of logmel has an option 'colour'"),
        (options("nothing"), UsageError, "there is no extractor 'nothing'"),
        (options("mobilenet_v2", random_weights=True, device="tpu"), UsageError, "unknown device 'tpu'"),
    ):
        with pytest.raises(kind, match=said):
            extract([str(folder)], tmp_path / "out", changed)
    assert not (tmp_path / "out").exists()
    for arguments, said in (
        ({"names": "logmel+"}, "does not name features"),
        ({"names": "logmel+logmel"}, "twice"),
        ({"names": "logmel", "hop": 0.2, "fps": 5.0}, "give one of them"),
        ({"names": "logmel", "hop": 0.0}, "--hop must be positive"),
        ({"names": "vggish", "weights": {"vggish": "a"}, "random_weights": True}, "exclude each other"),
    ):
        with pytest.raises(UsageError, match=said):
            FeatureRequest(**arguments)  # type: ignore[arg-type]


def test_options_and_weights_reach_their_extractor(tmp_path: Path) -> None:
    streams = StreamFactory(FeatureRequest("musicnn+logmel", options=parse_options(["output=tags", "logmel.n_mels=8"])))
    assert [part.width for part in streams.prototype().spec.parts] == [50, 24]
    shipped = ROOT / "weights/musicnn_mtt_vgg.safetensors"
    for given in ("musicnn-mtt", str(shipped), f"musicnn={shipped}"):
        part = StreamFactory(FeatureRequest("musicnn+logmel", weights=parse_weights([given]))).prototype().spec.parts[0]
        assert part.weights is not None
        assert part.weights.startswith("bb391b0a")
    for names, said in (
        ("musicnn+logmel+vggish", r"--weights x\.pth: say for which of musicnn, vggish, as in musicnn=x\.pth"),
        ("logmel+librosa:mfcc", r"--weights x\.pth: logmel\+librosa:mfcc takes no weight file: leave it out"),
    ):
        with pytest.raises(UsageError, match=said):
            StreamFactory(FeatureRequest(names, weights={ONLY: "x.pth"})).prototype()
    for text in ("n_mels", "=8"):
        with pytest.raises(UsageError, match="KEY=VALUE"):
            parse_options([text])
    with pytest.raises(UsageError, match="twice"):
        parse_options(["a=1", "a=2"])


def test_a_specification_gives_back_its_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in a feature file or a checkpoint is enough to compute the same rows again."""
    path = write_video(tmp_path / "v.mp4", 1.0)
    text = ["n_mels=8", "mobilenet_v2.frame=last", "network=msd+mtt"]
    chosen = options("mobilenet_v2+musicnn+logmel", options=parse_options(text), random_weights=True, fps=5)
    for changed in (chosen, options("musicnn", weights={"musicnn": "musicnn-mtt"}, options={"network": "mtt"})):
        extract([str(path)], tmp_path / changed.features.names, changed)
        read = read_features(tmp_path / changed.features.names / "v.npy")
        assert read.spec is not None
        again = StreamFactory.for_spec(FeatureSpec.from_dict(read.spec.to_dict()))
        assert again.prototype().spec == read.spec
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    part = read.spec.parts[0]
    for weights, given, said in (
        ("ab" * 32, {}, "give the file with --weights musicnn=FILE"),
        ("ab" * 32, {ONLY: "musicnn-mtt"}, "come from other weights of musicnn"),
    ):
        spec = FeatureSpec((replace(part, weights=weights),), 0.25)
        with pytest.raises(CotransError, match=said):
            StreamFactory.for_spec(spec, given)
    kinetics = StreamFactory(FeatureRequest("resnet50", random_weights=True)).prototype().spec.parts[0]
    with pytest.raises(MissingDependencyError, match="cotrans weights get tsn-resnet50-kinetics400"):
        StreamFactory.for_spec(FeatureSpec((replace(kinetics, weights="2692d16c" * 8),), 0.25))


def test_an_onnx_network(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)],
        "means",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 32, 32])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3])],
        [onnx.helper.make_tensor("axes", onnx.TensorProto.INT64, [2], [2, 3])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "means+colour.onnx")
    path = write_video(tmp_path / "v.mp4", 1.0)
    features = f"onnx:{tmp_path}/means+colour.onnx+logmel"
    summary = extract([str(path)], tmp_path / "out", options(features, layout="lstr", options={"scale": "unit"}))
    assert summary.ok and summary.width == 3 + 192
    rows = np.load(tmp_path / "out/rgb_means+colour/v.npy")
    assert rows.shape == (4, 3)
    assert ((rows > 0.3) & (rows < 0.7)).all()  # means of a random picture
