"""The musical network of musicnn: against an evaluation with numpy alone, on real music, window by window."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file

from pipelines.errors import UsageError
from pipelines.features.audio import build_audio_extractor
from pipelines.features.audio.musicnn.extractor import load_musical, shipped_weights
from pipelines.features.audio.musicnn.musical import KERNELS
from pipelines.features.audio.musicnn.musical_overlap import LiveMusical, SharedValues
from tests.features.music import RATE, log_mel, music, musicnn_tags

PATCH = 187
NETWORK = "msd_musicnn"
Numbers = NDArray[np.float64]


def evaluate(weights: dict[str, NDArray[np.float32]], patch: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Pooled, penultimate and tags of one patch (187, 96): every filter written out, in float64."""
    of = {name: value.astype(np.float64) for name, value in weights.items()}

    def normalised(values: Numbers, name: str) -> Numbers:
        spread = np.sqrt(of[f"{name}.running_var"] + 0.001)
        return (values - of[f"{name}.running_mean"]) / spread * of[f"{name}.weight"] + of[f"{name}.bias"]

    spectrum = normalised(patch[:, :, None], "input_norm")[:, :, 0]
    front = []
    for branch, (frames, bands) in enumerate([(7, 38), (7, 67), (128, 1), (64, 1), (32, 1)]):
        before = (frames - 1) // 2  # TensorFlow pads the longer side at the end
        padded = np.pad(spectrum, ((before, frames - 1 - before), (0, 0)))
        views = np.lib.stride_tricks.sliding_window_view(padded, (frames, bands))  # (187, places, frames, bands)
        summed = np.tensordot(views, of[f"branches.{branch}.weight"][:, 0], axes=((2, 3), (1, 2)))
        values = normalised(np.maximum(summed + of[f"branches.{branch}.bias"], 0), f"branch_norms.{branch}")
        front.append(values.max(1))
    layers = [np.concatenate(front, 1)]  # each (187, filters)
    for layer in range(3):
        padded = np.pad(layers[-1], ((3, 3), (0, 0)))
        kernel = of[f"middle.{layer}.weight"]
        summed = sum(padded[tap : tap + PATCH] @ kernel[:, :, tap].T for tap in range(7))
        values = normalised(np.maximum(summed + of[f"middle.{layer}.bias"], 0), f"middle_norms.{layer}")
        layers.append(values + layers[-1] if layer else values)
    together = np.concatenate(layers, 1)
    pooled = np.stack([together.max(0), together.mean(0)], 1).reshape(-1)
    dense = of["dense.weight"] @ normalised(pooled, "pooled_norm") + of["dense.bias"]
    penultimate = normalised(np.maximum(dense, 0), "dense_norm")
    logits = of["output.weight"] @ penultimate + of["output.bias"]
    return pooled, penultimate, 1 / (1 + np.exp(-logits))


def assert_equals_evaluation(audio: NDArray[np.float32]) -> None:
    """Row 3 at a hop of one second: the patch begins at the even frame at or before its window."""
    stream = build_audio_extractor("musicnn", 1.0, {"network": NETWORK, "output": "pooled+middle+penultimate+tags"})
    row = np.concatenate([stream.push(audio), stream.flush()])[3]
    begin = (4 * RATE - 48128) // 512 * 512
    pooled, penultimate, tags = evaluate(load_file(shipped_weights(NETWORK)), log_mel(audio[begin : begin + 48128]))
    np.testing.assert_allclose(row[:1506], pooled, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(row[1506:1890], row[1122:1506])
    np.testing.assert_allclose(row[1890:2090], penultimate, rtol=0, atol=2e-4)
    np.testing.assert_allclose(row[2090:], tags, rtol=0, atol=2e-5)


def test_rows_equal_an_independent_evaluation() -> None:
    time = np.arange(4 * RATE) / RATE
    chirp = 0.3 * np.sin(2 * np.pi * (200 + 300 * time) * time)
    hiss = 0.05 * np.random.default_rng(0).standard_normal(len(time))
    assert_equals_evaluation((chirp + hiss).astype(np.float32))


@pytest.mark.shared
@pytest.mark.parametrize("name", ["metal.00003", "classical.00003"])
def test_rows_equal_an_independent_evaluation_on_music(shared_dir: Path, name: str) -> None:
    assert_equals_evaluation(music(shared_dir, name, 5))


@pytest.mark.shared
def test_tags_of_real_music_are_plausible(shared_dir: Path) -> None:
    names = musicnn_tags(shipped_weights(NETWORK))
    numbers = {"metal": (0, 3), "country": (0, 3), "jazz": (10, 21), "hiphop": (5, 20), "blues": (3, 29)}
    tags = {}
    for genre, clips in numbers.items():
        rows = []
        for number in clips:
            stream = build_audio_extractor("musicnn", 1.5, {"network": NETWORK, "output": "tags"})
            rows.append(stream.push(music(shared_dir, f"{genre}.{number:05d}"))[2:].mean(0))
        tags[genre] = dict(zip(names, np.mean(rows, 0).tolist(), strict=True))
    for genre, tag in {"metal": "metal", "jazz": "jazz", "hiphop": "Hip-Hop", "country": "country"}.items():
        assert max(tags, key=lambda other: tags[other][tag]) == genre, tag
        assert tag in sorted(names, key=tags[genre].__getitem__)[-6:], tag
    assert max(tags, key=lambda other: tags[other]["heavy metal"]) == "metal"


# The first frames of windows at hops of 0.25 s and of 1 s, some that do not overlap, and one alone.
@pytest.mark.parametrize("starts", [[-14, 2, 18, 34, 48], [120, 182, 244], [0, 16, 400, 416, 1000], [6]])
def test_shared_work_and_missing_filters_change_nothing(starts: list[int]) -> None:
    network = load_musical(shipped_weights(NETWORK))
    live = LiveMusical(network)
    generator = torch.Generator().manual_seed(0)
    span = 4 * torch.rand(starts[-1] - starts[0] + PATCH, 96, generator=generator)
    windows = [span[start - starts[0] : start - starts[0] + PATCH] for start in starts]
    with torch.inference_mode():
        expected = network.pooled(torch.stack(windows))
        together = live.pooled_windows(span, starts, {})
        kept: SharedValues = {}
        in_turn = [live.pooled_windows(window, [start], kept) for start, window in zip(starts, windows, strict=True)]
    # Not to the bit: which product of matrices a processor takes depends on how many rows there are.
    torch.testing.assert_close(together, expected, rtol=1e-5, atol=2e-4)
    torch.testing.assert_close(torch.cat(in_turn), together, rtol=1e-5, atol=1e-4)


def test_what_is_kept_stays_small() -> None:
    live = LiveMusical(load_musical(shipped_weights(NETWORK)))
    kept: SharedValues = {}
    with torch.inference_mode():
        for start in range(0, 800, 16):
            live.pooled_windows(torch.zeros(PATCH, 96), [start], kept)
            assert sum(shared.values.shape[1] for shared in kept.values()) <= len(KERNELS) * PATCH


def test_networks_of_both_kinds_stand_side_by_side() -> None:
    audio = (0.1 * np.random.default_rng(1).standard_normal(RATE)).astype(np.float32)
    parts = [
        build_audio_extractor("musicnn", 0.5, {"network": name, "output": "tags"}).push(audio)
        for name in (NETWORK, "msd")
    ]
    both = build_audio_extractor("musicnn", 0.5, {"network": f"{NETWORK}+msd", "output": "tags"})
    np.testing.assert_array_equal(both.push(audio), np.concatenate(parts, 1))


def test_outputs_that_a_network_has_not_are_refused() -> None:
    with pytest.raises(UsageError, match="network msd has no output 'penultimate': choose from pooled, tags"):
        build_audio_extractor("musicnn", 0.25, {"output": "penultimate"})
    with pytest.raises(UsageError, match="choose from pooled, middle, penultimate, tags"):
        build_audio_extractor("musicnn", 0.25, {"network": NETWORK, "output": "tags+tags"})
    random = build_audio_extractor("musicnn", 0.25, {"network": NETWORK}, random_weights=True)
    assert random.spec.weights == "random" and random.spec.width == 1506
