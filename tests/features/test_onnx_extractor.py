"""`onnx:FILE`: what the network takes, its options, its rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import CheckpointError, InputError, MissingDependencyError, UsageError
from pipelines.features.joint import FeatureStream
from pipelines.features.networks.files import build_network_extractor, network_options
from tests.features.made_media import brightness

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def save(path: Path, shape: list[Any], nodes: list[Any], constants: dict[str, np.ndarray] | None = None) -> str:
    helper = onnx.helper
    graph = helper.make_graph(
        nodes,
        "features",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path)
    return f"onnx:{path}"


def mean_picture(path: Path, shape: list[Any], axes: list[int]) -> str:
    node = onnx.helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)
    return save(path, shape, [node], {"axes": np.array(axes, np.int64)})


def projection(path: Path, shape: list[Any], samples: int) -> tuple[str, np.ndarray]:
    matrix = np.random.default_rng(0).normal(size=(samples, 5)).astype(np.float32)
    return save(path, shape, [onnx.helper.make_node("MatMul", ["x", "m"], ["y"])], {"m": matrix}), matrix


def test_pictures_in_either_order_of_channels(tmp_path: Path) -> None:
    first = mean_picture(tmp_path / "first.onnx", ["n", 3, 32, 48], [2, 3])
    last = mean_picture(tmp_path / "last.onnx", [1, 24, 24, 3], [1, 2])
    image = np.full((50, 90, 3), (10, 100, 250), np.uint8)
    for name in (first, last):
        extractor: Any = build_network_extractor(name, 0.25, {"scale": "raw"})
        assert (extractor.spec.kind, extractor.spec.width, extractor.frames_per_row) == ("video", 3, 1)
        np.testing.assert_allclose(extractor.push(image[None]), [[10, 100, 250]], atol=1e-3)
    unit: Any = build_network_extractor(first, 0.25)
    expected = (np.array([10, 100, 250]) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(unit.push(image[None])[0], expected, atol=1e-5)
    assert network_options(first) == {"scale": "imagenet", "frame": "centre", "output": ""}


@pytest.mark.parametrize("align", ["causal", "centre", "start"])
def test_windows_are_cut_as_the_clock_says(align: Any, tmp_path: Path) -> None:
    name, matrix = projection(tmp_path / "a.onnx", [1, 800], 800)
    wave = np.random.default_rng(1).normal(size=8100).astype(np.float32)
    options = {"rate": 8000}
    whole: Any = build_network_extractor(name, 0.25, options, align)
    assert (whole.spec.kind, whole.spec.width, whole.spec.window, whole.sample_rate) == ("audio", 5, 0.1, 8000)
    rows = np.concatenate([whole.push(wave), whole.flush()])
    assert len(rows) == 4  # 8100 samples are four hops of 2000 and a bit
    padded = np.concatenate([np.zeros(800), wave, np.zeros(800)]).astype(np.float32)
    for index, row in enumerate(rows):
        begin = {"causal": (index + 1) * 2000 - 800, "centre": index * 2000 - 400, "start": index * 2000}[align]
        np.testing.assert_allclose(row, padded[begin + 800 : begin + 1600] @ matrix, atol=1e-4)
    for size in (1, 7, 799, 2000, 5000):
        pieces: Any = whole.fresh()
        parts = [pieces.push(wave[begin : begin + size]) for begin in range(0, len(wave), size)]
        np.testing.assert_array_equal(np.concatenate([*parts, pieces.flush()]), rows)


def test_windows_longer_than_the_hop_and_free_lengths(tmp_path: Path) -> None:
    node = onnx.helper.make_node("ReduceMax", ["x", "axes"], ["y"], keepdims=1)
    name = save(tmp_path / "a.onnx", [1, 1, "samples"], [node], {"axes": np.array([2], np.int64)})
    extractor: Any = build_network_extractor(name, 0.25, {"rate": "8000", "window": "0.5"})
    assert extractor.spec.window == 0.5
    ramp = np.arange(8000, dtype=np.float32)
    rows = np.concatenate([extractor.push(ramp), extractor.flush()])
    assert rows[:, 0].tolist() == [1999, 3999, 5999, 7999]


def test_onnx_joins_other_extractors(tmp_path: Path) -> None:
    picture = build_network_extractor(mean_picture(tmp_path / "v.onnx", [1, 3, 8, 8], [2, 3]), 0.25, {"scale": "raw"})
    sound = build_network_extractor(projection(tmp_path / "a.onnx", [800], 800)[0], 0.25, {"rate": 8000})
    stream = FeatureStream([picture, sound], 0.25)
    rows = [stream.push_audio(np.zeros(16_000, np.float32), 16_000)]
    rows += [stream.push_frame(brightness(0.5, 20, 20), index / 25, 0.04) for index in range(25)]
    assert np.concatenate([*rows, stream.flush()]).shape == (4, 8)


def test_what_does_not_fit_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"no network")
    good = mean_picture(tmp_path / "good.onnx", [1, 3, 8, 8], [2, 3])
    odd = mean_picture(tmp_path / "odd.onnx", [1, 5, 8, 8], [2, 3])
    for name, options, error, text in (
        (f"onnx:{tmp_path}/bad.onnx", {}, CheckpointError, "not an ONNX network"),
        (f"onnx:{tmp_path}/none.onnx", {}, InputError, "no such onnx file"),
        (odd, {}, CheckpointError, "neither a picture"),
        (good, {"output": "z"}, UsageError, "no output 'z': choose from y"),
        (good, {"scale": "log"}, UsageError, "'log' is not one of"),
        (good, {"rate": 8000}, UsageError, "has no option 'rate'"),
    ):
        with pytest.raises(error, match=text) as caught:
            build_network_extractor(name, 0.25, options)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    with pytest.raises(MissingDependencyError, match=r"onnxruntime is not installed: pip install 'cotrans\[onnx\]'"):
        build_network_extractor(good, 0.25)
