"""musicnn: the shipped weights on real music, and against an evaluation with numpy and librosa alone."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from pipelines.errors import CheckpointError, ConfigurationError, InputError, UsageError
from pipelines.features.audio import build_audio_extractor
from pipelines.features.audio.musicnn.extractor import load_musicnn, shipped_weights
from pipelines.features.audio.musicnn.tensorflow_checkpoint import masked_crc32c
from pipelines.features.audio.musicnn.vgg import without_dead_channels
from pipelines.features.audio.musicnn.wheel_import import convert_wheel
from tests.features.music import RATE, log_mel, music, musicnn_tags
from tests.features.tensorflow_bundle import write_bundle

PATCH = 187


def evaluate(weights: dict[str, NDArray], patch: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
    """The pooled layer and the tags of one patch (187, 96), in TensorFlow's order of axes and in float64."""

    def normalised(maps: NDArray, name: str) -> NDArray:
        gamma, beta, mean, variance = (
            weights[f"{name}.{key}"].astype(np.float64) for key in ("weight", "bias", "running_mean", "running_var")
        )
        return (maps - mean) / np.sqrt(variance + 0.001) * gamma + beta

    def pooled(maps: NDArray, size: tuple[int, int], stride: int) -> NDArray:
        views = np.lib.stride_tricks.sliding_window_view(maps, size, axis=(0, 1))
        return views[::stride, ::stride].max((-2, -1))

    maps = normalised(patch[:, :, None], "input_norm")
    for layer, (size, stride) in enumerate((((4, 1), 2), ((2, 2), 2), ((2, 2), 2), ((2, 2), 2), ((4, 4), 4))):
        kernel = weights[f"convolutions.{layer}.weight"].astype(np.float64)
        padded = np.pad(maps, ((1, 1), (1, 1), (0, 0)))
        height, width, _ = maps.shape
        total = weights[f"convolutions.{layer}.bias"].astype(np.float64)
        for row in range(3):
            for column in range(3):
                total = total + padded[row : row + height, column : column + width] @ kernel[:, :, row, column].T
        maps = pooled(normalised(np.maximum(total, 0), f"norms.{layer}"), size, stride)
    flat = maps.reshape(-1)
    logits = weights["dense.weight"].astype(np.float64) @ flat + weights["dense.bias"]
    return flat, 1 / (1 + np.exp(-logits))


def assert_equals_evaluation(audio: NDArray[np.float32], network: str) -> None:
    """Row 3 at a hop of one second: the patch begins at the even frame at or before its window."""
    stream = build_audio_extractor("musicnn", 1.0, {"network": network, "output": "pooled+tags"})
    row = np.concatenate([stream.push(audio), stream.flush()])[3]
    begin = (4 * RATE - 48128) // 512 * 512
    flat, tags = evaluate(load_file(shipped_weights(network)), log_mel(audio[begin : begin + 48128]))
    np.testing.assert_allclose(row[:256], flat, rtol=0, atol=2e-5)
    np.testing.assert_allclose(row[256:], tags, rtol=0, atol=2e-6)


@pytest.mark.parametrize("network", ["msd", "mtt"])
def test_rows_equal_an_independent_evaluation(network: str) -> None:
    time = np.arange(4 * RATE) / RATE
    chirp = 0.3 * np.sin(2 * np.pi * (200 + 300 * time) * time)
    hiss = 0.05 * np.random.default_rng(0).standard_normal(len(time))
    assert_equals_evaluation((chirp + hiss).astype(np.float32), network)


@pytest.mark.shared
@pytest.mark.parametrize("network", ["msd", "mtt"])
def test_rows_equal_an_independent_evaluation_on_music(shared_dir: Path, network: str) -> None:
    assert_equals_evaluation(music(shared_dir, "metal.00003", 5), network)


@pytest.mark.shared
def test_tags_of_real_music_are_plausible(shared_dir: Path) -> None:
    def tags(name: str, network: str) -> dict[str, float]:
        stream = build_audio_extractor("musicnn", 1.5, {"network": network, "output": "tags"})
        mean = np.concatenate([stream.push(music(shared_dir, name)), stream.flush()])[2:].mean(0)
        return dict(zip(musicnn_tags(shipped_weights(network)), mean.tolist(), strict=True))

    numbers = {"metal": (0, 3), "classical": (0, 3), "jazz": (10, 21), "hiphop": (5, 20)}
    clips = {genre: [f"{genre}.{number:05d}" for number in of_genre] for genre, of_genre in numbers.items()}
    msd = {name: tags(name, "msd") for names in clips.values() for name in names}
    mtt = {name: tags(name, "mtt") for names in clips.values() for name in names}
    for name in clips["metal"]:
        assert mtt[name]["rock"] > 0.4 and mtt[name]["metal"] > 0.15 > mtt[name]["classical"]
    for name in clips["classical"]:
        assert max(mtt[name], key=mtt[name].__getitem__) == "classical" and mtt[name]["metal"] < 0.02

    def loudest(scores: dict[str, dict[str, float]], tag: str) -> str:
        return max(clips, key=lambda genre: sum(scores[name][tag] for name in clips[genre]))

    for tag in ("metal", "heavy metal", "hard rock", "rock"):
        assert loudest(msd, tag) == "metal"
    assert loudest(msd, "jazz") == "jazz"
    assert loudest(msd, "Hip-Hop") == "hiphop"
    assert loudest(mtt, "violin") == "classical"


def test_the_two_networks_stand_side_by_side() -> None:
    audio = (0.1 * np.random.default_rng(1).standard_normal(RATE)).astype(np.float32)
    parts = [build_audio_extractor("musicnn", 0.5, {"network": name}).push(audio) for name in ("msd", "mtt")]
    both = build_audio_extractor("musicnn", 0.5, {"network": "msd+mtt"})
    np.testing.assert_array_equal(both.push(audio), np.concatenate(parts, 1))
    assert both.spec.width == 512 and both.spec.window == 3.008


@pytest.mark.parametrize("network", ["msd", "mtt"])
def test_channels_are_only_left_out_where_they_add_nothing(network: str) -> None:
    full = load_musicnn(shipped_weights(network))
    reduced = without_dead_channels(full)
    assert sum(p.numel() for p in reduced.parameters()) < 0.75 * sum(p.numel() for p in full.parameters())
    patches = 3 * torch.rand(2, PATCH, 96, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(reduced.pooled(patches), full.pooled(patches), rtol=0, atol=1e-5)


def tensorflow_names(weights: dict[str, NDArray]) -> dict[str, NDArray]:
    """The state of a network as TensorFlow stores it, with the moments of its optimiser."""
    tensors = {}
    for layer in range(5):
        kernel = weights[f"convolutions.{layer}.weight"].transpose(2, 3, 1, 0)
        tensors[f"{layer + 1}CNN/kernel"] = kernel
        tensors[f"{layer + 1}CNN/kernel/Adam_1"] = kernel[:1]
        tensors[f"{layer + 1}CNN/bias"] = weights[f"convolutions.{layer}.bias"]
    tensors |= {"dense/kernel": weights["dense.weight"].T, "dense/bias": weights["dense.bias"]}
    tensors["beta1_power"] = np.zeros((), np.float32)
    for ours, theirs in zip(
        ["input_norm", *(f"norms.{layer}" for layer in range(5))],
        ["batch_normalization", *(f"batch_normalization_{layer}" for layer in range(1, 6))],
        strict=True,
    ):
        tensors[f"{theirs}/gamma"], tensors[f"{theirs}/beta"] = weights[f"{ours}.weight"], weights[f"{ours}.bias"]
        tensors[f"{theirs}/moving_mean"] = weights[f"{ours}.running_mean"]
        tensors[f"{theirs}/moving_variance"] = weights[f"{ours}.running_var"]
    return tensors


def musical_tensorflow_names(weights: dict[str, NDArray]) -> dict[str, NDArray]:
    """The same of a musical network: TensorFlow counts its layers, and a plane of filters stands for channels."""
    middle = {f"middle.{layer}": f"conv2d_{5 + layer}" for layer in range(3)}
    layers = {"branches.0": "conv2d"} | {f"branches.{branch}": f"conv2d_{branch}" for branch in range(1, 5)} | middle
    norms = ["input_norm", *(f"branch_norms.{branch}" for branch in range(5))]
    norms += [*(f"middle_norms.{layer}" for layer in range(3)), "pooled_norm", "dense_norm"]
    layers |= {"dense": "dense", "output": "dense_1"}
    named = {name: f"batch_normalization_{number}" for number, name in enumerate(norms)}
    named["input_norm"] = "batch_normalization"
    keys = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}
    tensors = {f"{theirs}/{keys[key]}": weights[f"{ours}.{key}"] for ours, theirs in named.items() for key in keys}
    for ours, theirs in layers.items():
        kernel = weights[f"{ours}.weight"]
        if kernel.ndim == 4:
            kernel = kernel.transpose(2, 3, 1, 0)
        elif kernel.ndim == 3:
            kernel = kernel.transpose(2, 1, 0)[:, :, None]
        else:
            kernel = kernel.T
        tensors |= {f"{theirs}/kernel": kernel, f"{theirs}/bias": weights[f"{ours}.bias"]}
    return tensors


def small_network(network: str = "msd") -> dict[str, NDArray]:
    """The shipped names and shapes with numbers that are cheap to check."""
    shapes = {name: value.shape for name, value in load_file(shipped_weights(network)).items()}
    return {name: np.full(shape, position + 1, np.float32) for position, (name, shape) in enumerate(shapes.items())}


def write_wheel(path: Path, vgg: dict[str, NDArray], musical: dict[str, NDArray]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for folder, tensors in (("MSD_vgg", vgg), ("MTT_vgg", vgg), ("MSD_musicnn", musical)):
            # The writer's own checksum goes bit by bit, which is too slow for a whole network.
            index, data = write_bundle(tensors, checksum=lambda part: struct.pack("<I", masked_crc32c(part)))
            archive.writestr(f"musicnn/{folder}/.index", index)
            archive.writestr(f"musicnn/{folder}/.data-00000-of-00001", data)
        archive.writestr("musicnn/configuration.py", "SR = 16000\nMTT_LABELS = ['a']\nMSD_LABELS = ['b', 'c']\n")


def test_the_wheel_is_converted_without_tensorflow(tmp_path: Path) -> None:
    weights, musical = small_network(), small_network("msd_musicnn")
    write_wheel(tmp_path / "musicnn.whl", tensorflow_names(weights), musical_tensorflow_names(musical))
    msd, mtt, msd_musicnn = convert_wheel(tmp_path / "musicnn.whl", tmp_path)
    for file, expected in ((msd, weights), (mtt, weights), (msd_musicnn, musical)):
        written = load_file(file)
        assert set(written) == set(expected)
        for name, value in expected.items():
            np.testing.assert_array_equal(written[name], value, strict=True)
    assert musicnn_tags(msd) == musicnn_tags(msd_musicnn) == ["b", "c"] and musicnn_tags(mtt) == ["a"]
    before = msd.read_bytes()
    convert_wheel(tmp_path / "musicnn.whl", tmp_path)
    assert msd.read_bytes() == before

    other = {"1CNN/bias": np.zeros(3, np.float32), "6CNN/bias": np.zeros(3, np.float32)}
    write_wheel(tmp_path / "other.whl", other, {})
    with pytest.raises(CheckpointError, match="unknown tensor 6CNN/bias"):
        convert_wheel(tmp_path / "other.whl", tmp_path)


def test_what_is_no_wheel_of_musicnn_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.whl").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a readable wheel"):
        convert_wheel(tmp_path / "bad.whl", tmp_path)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("musicnn/__init__.py", "")
    (tmp_path / "empty.whl").write_bytes(buffer.getvalue())
    with pytest.raises(InputError, match="has no musicnn/MSD_vgg/"):
        convert_wheel(tmp_path / "empty.whl", tmp_path)


def test_the_network_is_that_of_the_weight_file(tmp_path: Path) -> None:
    for name, width in (("msd", 256), ("mtt", 256), ("msd_musicnn", 1506)):
        given = shipped_weights(name)
        part = build_audio_extractor("musicnn", 0.5, weights_path=given).spec
        assert part.options["network"] == name and part.width == width
        assert part == build_audio_extractor("musicnn", 0.5, {"network": name}).spec
        other = "mtt" if name == "msd" else "msd"
        with pytest.raises(ConfigurationError) as caught:
            build_audio_extractor("musicnn", 0.5, {"network": other}, weights_path=given)
        assert str(caught.value) == (
            f"{given} holds musicnn's network {name}, not {other}: give --option network={name}"
        )
    assert build_audio_extractor("musicnn", 0.5).spec.options["network"] == "msd"
    # Fine-tuned weights do not say what they were; then it is what the user says, msd by default.
    save_file(load_file(shipped_weights("msd_musicnn")), tmp_path / "own.safetensors")
    with pytest.raises(CheckpointError, match=r"own\.safetensors are of the musical network: give --option network=ms"):
        build_audio_extractor("musicnn", 0.5, weights_path=tmp_path / "own.safetensors")
    options = {"network": "msd_musicnn"}
    assert build_audio_extractor("musicnn", 0.5, options, weights_path=tmp_path / "own.safetensors").spec.width == 1506


def test_shipped_weights_say_where_they_come_from() -> None:
    from safetensors import safe_open

    for name in ("msd", "mtt", "msd_musicnn"):
        with safe_open(shipped_weights(name), "np") as file:
            description = json.loads(file.metadata()["musicnn"])
        assert "musicnn 0.1.0" in description["source"] and "ISC" in description["licence"]
        assert len(set(musicnn_tags(shipped_weights(name)))) == 50


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose from pooled, tags"):
        build_audio_extractor("musicnn", 0.25, {"output": "logits"})
    with pytest.raises(UsageError, match="msd, mtt, msd_musicnn"):
        build_audio_extractor("musicnn", 0.25, {"network": "big"})
    with pytest.raises(ConfigurationError, match="one musicnn network"):
        build_audio_extractor("musicnn", 0.25, {"network": "msd+mtt"}, weights_path=shipped_weights("msd"))
    assert build_audio_extractor("musicnn", 0.25, random_weights=True).spec.weights == "random"
