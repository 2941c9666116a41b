"""`librosa:…`: what librosa gives for each frame on its own, whatever the pieces that the sound comes in."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cotrans_cli.main import run
from pipelines.errors import ConfigurationError, UsageError
from pipelines.features.audio import build_audio_extractor
from pipelines.features.audio.librosa_features import FEATURES
from tests.streaming.made_streams import write_sound

RATE, FRAME, STEP = 22050, 2048, 512


def sound(seconds: float) -> NDArray[np.float32]:
    """A chirp that grows louder, with noise and silence in it."""
    time = np.arange(round(seconds * RATE)) / RATE
    noise = np.random.default_rng(0).normal(0, 0.02, len(time))
    samples = (0.1 + 0.3 * time / seconds) * np.sin(2 * np.pi * (200 + 400 * time) * time) + noise
    samples[RATE // 2 : RATE // 2 + 3000] = 0.0
    return samples.astype(np.float32)


def librosas(name: str, frame: NDArray[np.float32]) -> NDArray[Any]:
    """librosa's own function on the samples of one frame, as a user would call it."""
    import librosa

    y = frame.astype(np.float64)
    common: dict[str, Any] = {"sr": RATE, "n_fft": FRAME, "hop_length": STEP, "center": False}
    lengths = {"frame_length": FRAME, "hop_length": STEP, "center": False}
    feature = librosa.feature
    if name == "mel":
        return np.asarray(librosa.power_to_db(feature.melspectrogram(y=y, **common), top_db=None))[:, 0]
    if name == "tonnetz":
        chroma = feature.chroma_stft(y=y, tuning=0.0, **common)
        return np.asarray(feature.tonnetz(chroma=chroma, sr=RATE))[:, 0]
    if name == "chroma":
        return np.asarray(feature.chroma_stft(y=y, tuning=0.0, **common))[:, 0]
    if name == "flatness":
        return np.asarray(feature.spectral_flatness(y=y, n_fft=FRAME, hop_length=STEP, center=False))[:, 0]
    if name in ("rms", "zero_crossings"):
        function = feature.rms if name == "rms" else feature.zero_crossing_rate
        return np.asarray(function(y=y, **lengths))[:, 0]
    called = {"mfcc": "mfcc", "poly": "poly_features"}.get(name, f"spectral_{name}")
    return np.asarray(getattr(feature, called)(y=y, **common))[:, 0]


@pytest.mark.parametrize("name", FEATURES)
def test_a_row_is_librosas_of_its_frames(name: str) -> None:
    samples = sound(1.2)
    extractor = build_audio_extractor(f"librosa:{name}", 0.25, {"statistics": "mean+max"})
    rows = np.concatenate([extractor.push(samples), extractor.flush()])
    length = round(0.25 * RATE)
    end = round(4 * 0.25 * RATE)  # of the fourth row's window
    begin = (end - length) // STEP * STEP
    frames = [samples[first : first + FRAME] for first in range(begin, begin + length - FRAME + 1, STEP)]
    wanted = np.stack([librosas(name, frame) for frame in frames])
    expected = np.concatenate([wanted.mean(0), wanted.max(0)])
    assert rows.shape == (4, extractor.spec.width) and np.isfinite(rows).all()
    np.testing.assert_allclose(rows[3], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["mfcc", "contrast", "rms"])
def test_pieces_do_not_matter(name: str) -> None:
    samples = sound(1.0)
    whole = build_audio_extractor(f"librosa:{name}", 0.1)
    rows = np.concatenate([whole.push(samples), whole.flush()])
    parts = whole.fresh()
    places = [0, 1, 700, 701, 5000, 5001, 20000, len(samples)]
    pieces = [parts.push(samples[a:b]) for a, b in pairwise(places)]
    np.testing.assert_allclose(np.concatenate([*pieces, parts.flush()]), rows, rtol=1e-6, atol=1e-6)


def test_what_cannot_be_is_said() -> None:
    for options, error in (
        ({"size": 200}, ConfigurationError),
        ({"size": -1}, UsageError),
        ({"statistics": "slope"}, UsageError),
        ({"window": 0.01}, UsageError),
        ({"n_fft": 4}, UsageError),
    ):
        with pytest.raises(error):
            build_audio_extractor("librosa:mfcc", 0.25, options)
    with pytest.raises(UsageError, match="cannot have a size of 3"):
        build_audio_extractor("librosa:rms", 0.25, {"size": 3})


def test_from_the_command_line(tmp_path: Path) -> None:
    clip = write_sound(tmp_path / "a.wav", 1.0)
    names = "librosa:mfcc+librosa:chroma+logmel"
    options = ["--option", "librosa:mfcc.size=13", "--hop", "0.1"]
    assert run(["extract", str(clip), "--out", str(tmp_path / "f"), "--features", names, *options]) == 0
    assert np.load(tmp_path / "f" / "a.npy").shape == (10, 2 * 13 + 2 * 12 + 3 * 64)
    lstr = ["--layout", "lstr", "--out", str(tmp_path / "lstr")]
    assert run(["extract", str(clip), *lstr, "--features", "librosa:mfcc"]) == 0
    assert (tmp_path / "lstr" / "audio_librosa_mfcc" / "a.npy").is_file()
