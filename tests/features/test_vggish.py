"""VGGish against torchvggish: its front end, its network, its post-processing and its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.errors import CheckpointError, ConfigurationError, MissingDependencyError, UsageError
from pipelines.features.audio import build_audio_extractor
from pipelines.features.audio.mel import vggish_front_end
from pipelines.features.audio.parameters import load_strictly, randomise
from pipelines.features.audio.vggish import load_vggish
from pipelines.features.audio.vggish_network import PcaParameters, Vggish

RATE = 16000
ROOT = Path(__file__).resolve().parents[2]


def noise(seconds: float) -> NDArray[np.float32]:
    return (0.2 * np.random.default_rng(1).standard_normal(int(seconds * RATE))).astype(np.float32)


def tones(seconds: float) -> NDArray[np.float32]:
    time = np.arange(int(seconds * RATE)) / RATE
    return sum(0.2 * np.sin(2 * np.pi * pitch * time) for pitch in (130.8, 440.0, 3520.0, 7400.0)).astype(np.float32)


def speech(shared_dir: Path) -> NDArray[np.float32]:
    import soundfile
    import soxr

    files = sorted((shared_dir / "spoken_digits").glob("*_george_1.flac"))[:6]
    audio = np.concatenate([soundfile.read(file, dtype="float32")[0] for file in files])
    return np.asarray(soxr.resample(audio, 8000, RATE), np.float32)


@pytest.fixture(scope="module")
def reference() -> torch.nn.Module:
    """torchvggish's own network, with arbitrary weights."""
    from torchvggish.torchvggish import _vgg

    with torch.device("meta"):
        network = _vgg()
    network.to_empty(device="cpu")
    randomise(network)
    return network.eval()


@pytest.fixture(scope="module")
def weights(reference: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file as torchvggish publishes it."""
    path = tmp_path_factory.mktemp("vggish") / "vggish-00000000.pth"
    torch.save(reference.state_dict(), path)
    return path


def assert_front_end_equal(audio: NDArray[np.float32]) -> None:
    from torchvggish.vggish_input import waveform_to_examples

    expected = waveform_to_examples(audio, RATE, return_tensor=False)  # (examples, 96, 64)
    frames = vggish_front_end().frames(audio)
    ours = frames[: len(expected) * 96].reshape(expected.shape)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)


def test_front_end_is_torchvggishs_on_noise_and_tones() -> None:
    assert_front_end_equal(noise(3))
    assert_front_end_equal(tones(3))
    assert_front_end_equal(np.zeros(RATE, np.float32))


@pytest.mark.shared
def test_front_end_is_torchvggishs_on_speech(shared_dir: Path) -> None:
    assert_front_end_equal(speech(shared_dir))


def test_rows_are_torchvggishs_for_each_window_of_a_second(reference: torch.nn.Module, weights: Path) -> None:
    """With causal rows, the window that ends with the row's hop; silence stands before the stream."""
    from torchvggish.vggish_input import waveform_to_examples

    audio = np.concatenate([noise(0.9), tones(0.9)])
    silence = np.zeros(RATE, np.float32)
    for align, padded in (
        ("causal", np.concatenate([silence, audio])[4000:]),
        ("start", np.concatenate([audio, silence])),
    ):
        stream = build_audio_extractor("vggish", 0.25, weights_path=weights, align=align)
        rows = np.concatenate([stream.push(audio), stream.flush()])
        windows = [padded[begin : begin + RATE] for begin in range(0, len(rows) * 4000, 4000)]
        with torch.inference_mode():
            expected = np.concatenate([reference(waveform_to_examples(each, RATE)) for each in windows])
        assert rows.shape == (7, 128)
        np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_a_clip_of_30_seconds_has_120_rows_of_128(weights: Path) -> None:
    stream = build_audio_extractor("vggish", 0.25, weights_path=weights)
    clip = noise(30.013)  # as long as those of GTZAN
    rows = np.concatenate([stream.push(clip), stream.flush()])
    assert rows.shape == (120, 128)
    # The last row hears the last second before 30 s.
    alone = build_audio_extractor("vggish", 1.0, weights_path=weights).push(clip[29 * RATE : 30 * RATE])
    np.testing.assert_allclose(rows[-1:], alone, rtol=0, atol=1e-6 * np.abs(alone).max())


def test_penultimate_is_the_second_dense_layer(reference: torch.nn.Module, weights: Path) -> None:
    from torchvggish.vggish_input import waveform_to_examples

    audio = noise(1)
    stream = build_audio_extractor("vggish", 1.0, {"output": "penultimate"}, weights_path=weights)
    with torch.inference_mode():
        maps = reference.features(waveform_to_examples(audio, RATE))
        expected = reference.embeddings[:4](maps.permute(0, 2, 3, 1).reshape(1, -1)).numpy()
    rows = stream.push(audio)
    assert rows.shape == (1, 4096)
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("suffix", [".pth", ".npz"])
def test_post_processing_is_torchvggishs(weights: Path, tmp_path: Path, suffix: str) -> None:
    from torchvggish.torchvggish import Postprocessor

    generator = np.random.default_rng(3)
    vectors, means = generator.standard_normal((128, 128)), generator.standard_normal((128, 1))
    path = tmp_path / f"pca{suffix}"
    if suffix == ".npz":
        np.savez(path, pca_eigen_vectors=vectors, pca_means=means)
    else:  # numpy arrays in a pickle, as in torchvggish's release
        torch.save({"pca_eigen_vectors": vectors, "pca_means": means}, path)
    options = {"postprocess": True, "pca_parameters": str(path)}
    stream = build_audio_extractor("vggish", 1.0, options, weights_path=weights)
    plain = build_audio_extractor("vggish", 1.0, weights_path=weights)
    audio = noise(3)
    theirs = object.__new__(Postprocessor)
    theirs._pca_matrix, theirs._pca_means = torch.tensor(vectors).float(), torch.tensor(means).float()
    expected = theirs.postprocess(torch.from_numpy(plain.push(audio))).numpy()
    rows = stream.push(audio)
    assert rows.shape == (3, 128)
    assert (np.abs(rows - expected) <= 1).all() and (rows != expected).mean() < 0.01  # a rounding at the edge
    assert len(set(rows.ravel())) > 2
    assert stream.spec.options["postprocess"] is True and "pca_parameters" not in stream.spec.options
    with pytest.raises(CheckpointError, match="checksum"):
        build_audio_extractor("vggish", 1.0, {**options, "pca_sha256": "0" * 64}, weights_path=weights)


def test_quantisation_is_exact_for_given_numbers() -> None:
    pca = PcaParameters(2 * torch.eye(128), torch.full((128,), 0.25))
    rows = pca(torch.tensor([[0.25, 1.25, -9.0, 0.5, 9.0] + [0.0] * 123]))
    assert rows[0, :6].tolist() == [128.0, 255.0, 0.0, 159.0, 255.0, 96.0]


def test_weights_are_never_silently_random(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="cotrans weights get vggish-audioset"):
        build_audio_extractor("vggish", 0.25)
    with pytest.raises(MissingDependencyError, match=r"not at .*absent\.pth"):
        build_audio_extractor("vggish", 0.25, weights_path=tmp_path / "absent.pth")
    with pytest.raises(MissingDependencyError, match="vggish-audioset-pca"):
        build_audio_extractor("vggish", 0.25, {"postprocess": True}, random_weights=True)
    first = build_audio_extractor("vggish", 1.0, random_weights=True)
    assert first.spec.weights == "random"


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "noise.pth").write_bytes(b"no weights at all")
    with pytest.raises(CheckpointError, match="damaged or not a PyTorch file"):
        load_vggish(tmp_path / "noise.pth")
    torch.save({"features.0.weight": torch.zeros(64, 1, 3, 3)}, tmp_path / "part.pth")
    with pytest.raises(CheckpointError, match=r"features\.0\.bias is missing and \d+ more"):
        load_vggish(tmp_path / "part.pth")
    with torch.device("meta"):
        network = Vggish()
        state = {**network.state_dict(), "extra": torch.zeros(1)}
    with pytest.raises(CheckpointError, match="extra is not part of the network"):
        load_strictly(network, state, "extra.pth")
    # One number, seen as a tensor of any shape: a small file must not ask for much memory.
    torch.save({"features.0.weight": torch.zeros(1).expand(64, 1, 3, 3)}, tmp_path / "small.pth")
    with pytest.raises(CheckpointError, match="is larger than the file"):
        load_vggish(tmp_path / "small.pth")


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="embedding, penultimate"):
        build_audio_extractor("vggish", 0.25, {"output": "logits"}, random_weights=True)
    with pytest.raises(ConfigurationError, match="alone"):
        build_audio_extractor("vggish", 0.25, {"output": "penultimate", "postprocess": True}, random_weights=True)
    with pytest.raises(ConfigurationError, match="postprocess is off"):
        build_audio_extractor("vggish", 0.25, {"pca_parameters": "file.pth"}, random_weights=True)


def test_vggish_takes_torchvggishs_parameters_without_importing_all_of_it() -> None:
    script = (
        "import sys; from pipelines.features.audio.mel import vggish_front_end\n"
        "made = vggish_front_end()\n"
        "assert (made.sample_rate, made.frame_length, made.frame_hop, made.bands) == (16000, 400, 160, 64)\n"
        "assert not {'resampy', 'numba', 'librosa'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
