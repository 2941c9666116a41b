"""`tflite:FILE` and `yamnet`: what the network takes, any tensor of it, what the file says about itself, its rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.checkpoints.description import describe
from pipelines.errors import CheckpointError, InputError, MissingDependencyError, UsageError
from pipelines.features.audio.yamnet import build_yamnet, yamnet_classes
from pipelines.features.extraction.run import ExtractionOptions, extract
from pipelines.features.media import AudioBlock, decode
from pipelines.features.networks.files import build_network_extractor, network_options
from pipelines.features.networks.tflite import TfliteNetwork
from pipelines.features.networks.tflite_metadata import TfliteMetadata, read_metadata
from pipelines.features.request import ONLY, FeatureRequest
from tests.features.tflite_files import audio_metadata, save

MATRIX = np.random.default_rng(0).normal(size=(800, 5)).astype(np.float32)


@pytest.mark.parametrize("align", ["causal", "centre", "start"])
def test_windows_are_cut_as_the_clock_says(align: Any, tmp_path: Path) -> None:
    name = save(tmp_path / "a.tflite", [[1, 800]], MATRIX)
    wave = np.random.default_rng(1).normal(size=8100).astype(np.float32)
    whole: Any = build_network_extractor(name, 0.25, {"rate": 8000, "output": "inner"}, align)
    assert (whole.spec.kind, whole.spec.width, whole.spec.window, whole.sample_rate) == ("audio", 5, 0.1, 8000)
    rows = np.concatenate([whole.push(wave), whole.flush()])
    padded = np.concatenate([np.zeros(800), wave, np.zeros(800)]).astype(np.float32)
    for index, row in enumerate(rows):
        begin = {"causal": (index + 1) * 2000 - 800, "centre": index * 2000 - 400, "start": index * 2000}[align]
        np.testing.assert_allclose(row, padded[begin + 800 : begin + 1600] @ MATRIX, atol=1e-3)
    for size in (1, 799, 5000):
        pieces: Any = whole.fresh()
        parts = [pieces.push(wave[begin : begin + size]) for begin in range(0, len(wave), size)]
        np.testing.assert_array_equal(np.concatenate([*parts, pieces.flush()]), rows)


def test_any_tensor_by_name_or_number(tmp_path: Path) -> None:
    path = tmp_path / "a.tflite"
    save(path, [[1, 800]], MATRIX)
    window = np.random.default_rng(2).normal(size=(1, 800)).astype(np.float32)
    inner = (window @ MATRIX)[0]
    np.testing.assert_allclose(TfliteNetwork(path)(window), np.maximum(inner, 0), atol=1e-3)
    np.testing.assert_allclose(TfliteNetwork(path, "inner")(window), inner, atol=1e-3)
    np.testing.assert_allclose(TfliteNetwork(path, "2")(window), inner, atol=1e-3)
    assert TfliteNetwork(path).output == "outer"


def test_the_file_says_rate_and_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.tflite"
    labels = ["bark", "meow", "moo", "oink", "quack"]
    name = save(path, [[1, 800]], MATRIX, None, audio_metadata(22_050, "labels.txt"), {"labels.txt": "\n".join(labels)})
    assert network_options(name) == {"rate": 22_050, "window": 1.0, "output": ""}
    assert TfliteNetwork(path).labels == tuple(labels)
    assert TfliteNetwork(path, "inner").labels == ()
    whole = path.read_bytes()
    for length in range(8, len(whole), 97):  # damage never raises here: the interpreter says what is wrong
        path.write_bytes(whole[:length])
        read_metadata(path)
    path.write_bytes(b"")
    assert read_metadata(path) == TfliteMetadata()


def test_what_does_not_fit_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = save(tmp_path / "good.tflite", [[1, 800]], MATRIX)
    two = save(tmp_path / "two.tflite", [[1, 800], [1, 4]], MATRIX)
    odd = save(tmp_path / "odd.tflite", [[1, 2, 400]], MATRIX)
    unknown = save(tmp_path / "unknown.tflite", [[1, 800]], MATRIX, custom="Frobnicate")
    cut = tmp_path / "cut.tflite"
    cut.write_bytes((tmp_path / "good.tflite").read_bytes()[:900])
    for name, options, error, text in (
        (f"tflite:{cut}", {}, CheckpointError, "not a TensorFlow Lite network"),
        (f"tflite:{tmp_path}/none.tflite", {}, InputError, "no such tflite file"),
        ("tflite:", {}, UsageError, "is not onnx:FILE or tflite:FILE"),
        (two, {}, CheckpointError, r"one input, this one has 2 \(x0, x1\)"),
        (odd, {}, CheckpointError, "neither a picture"),
        (unknown, {}, CheckpointError, "Frobnicate"),
        (good, {"output": "iner"}, UsageError, "no tensor 'iner'; did you mean 'inner'"),
        (good, {"output": "99"}, UsageError, "its tensors are 0 to 3"),
        (good, {"scale": "raw"}, UsageError, "has no option 'scale'"),
    ):
        with pytest.raises(error, match=text) as caught:
            build_network_extractor(name, 0.25, options)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    with pytest.raises(CheckpointError, match="is not YAMNet"):
        build_yamnet(0.25, weights_path=tmp_path / "good.tflite")
    with pytest.raises(UsageError, match="choose from embedding, classes"):
        build_yamnet(0.25, "tags", tmp_path / "good.tflite")
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)  # as if it were not installed
    with pytest.raises(
        MissingDependencyError, match=r"ai_edge_litert is not installed: pip install 'cotrans\[tflite\]'"
    ):
        build_network_extractor(good, 0.25)


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    extractor: Any = build_network_extractor(save(tmp_path / "a.tflite", [[1, 800]], MATRIX), 0.25)
    extractor.push(np.zeros(16_000, np.float32))
    assert capfd.readouterr() == ("", "")


def test_a_plus_joins_extractors_and_may_be_in_a_file_name() -> None:
    assert FeatureRequest("tflite:a+b.tflite+logmel").extractors == ("tflite:a+b.tflite", "logmel")


def test_yamnet_names_what_it_hears(shared_dir: Path, tmp_path: Path) -> None:
    network = shared_dir / "yamnet" / "yamnet.tflite"
    dog, baby = (shared_dir / "esc10" / name for name in ("dog/1-110389-A-0.ogg", "crying_baby/1-211527-A-20.ogg"))
    options = FeatureRequest("yamnet", options={"output": "classes"}, weights={ONLY: str(network)})
    extract([str(dog), str(baby)], tmp_path, ExtractionOptions(options, workers=1))
    for file, name in ((dog, "Dog"), (baby, "Baby cry, infant cry")):
        strongest = describe(tmp_path / f"{file.stem}.npy").details["strongest"]
        assert name in strongest, strongest
    assert len(yamnet_classes()) == len(set(yamnet_classes())) == 521


def test_yamnet_in_pieces_and_by_tensor_number(shared_dir: Path) -> None:
    network = shared_dir / "yamnet" / "yamnet.tflite"
    with decode(shared_dir / "esc10/dog/1-110389-A-0.ogg", audio_rate=16_000) as reader:
        wave = np.concatenate([item.samples for item in reader if isinstance(item, AudioBlock)])
    whole = build_yamnet(0.25, weights_path=network)
    rows = np.concatenate([whole.push(wave), whole.flush()])
    assert rows.shape == (20, 1024)
    pieces = whole.fresh()
    parts = [pieces.push(wave[begin : begin + 997]) for begin in range(0, len(wave), 997)]
    np.testing.assert_array_equal(np.concatenate([*parts, pieces.flush()]), rows)
    by_number: Any = build_network_extractor(f"tflite:{network}", 0.25, {"output": "121"})
    np.testing.assert_array_equal(np.concatenate([by_number.push(wave), by_number.flush()]), rows)
