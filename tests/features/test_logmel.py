"""logmel against librosa, and what its options do."""

from __future__ import annotations

from pathlib import Path

import librosa
import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError, UsageError
from pipelines.features.audio import build_audio_extractor


def sound(seconds: float, rate: int) -> NDArray[np.float32]:
    time = np.arange(int(seconds * rate)) / rate
    tone = 0.3 * np.sin(2 * np.pi * (300 + 900 * time) * time)
    return (tone + 0.01 * np.random.default_rng(0).standard_normal(len(time))).astype(np.float32)


def mel_frames(audio: NDArray[np.float32], rate: int, bands: int, lowest: float) -> NDArray[np.float64]:
    """(frames, bands) with scipy's transform and librosa's filters: 25 ms every 10 ms, the first at sample 0."""
    from scipy.signal import stft

    length, hop = round(0.025 * rate), round(0.01 * rate)
    fft_length = 2 * 2 ** int(np.ceil(np.log2(length)))
    _, _, spectrum = stft(
        audio.astype(np.float64), nperseg=length, noverlap=length - hop, nfft=fft_length, boundary=None, padded=False
    )
    power = np.abs(length / 2 * spectrum) ** 2
    filters = librosa.filters.mel(sr=rate, n_fft=fft_length, n_mels=bands, fmin=lowest, fmax=rate / 2)
    return np.log(filters @ power + 1e-6).T


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
def test_frames_are_librosas(rate: int) -> None:
    """One row per 10 ms and one frame per row is the spectrogram itself."""
    audio = sound(1, rate)
    frame_hop = round(0.01 * rate) / rate  # seconds; at 22,050 Hz not quite 10 ms
    options = {"sample_rate": rate, "n_mels": 40, "window": 0.0251, "frames": 1, "lowest": 60}
    rows = build_audio_extractor("logmel", frame_hop, options, align="start").push(audio)
    expected = mel_frames(audio, rate, 40, 60)
    assert len(rows) >= 97
    np.testing.assert_allclose(rows, expected[: len(rows)], rtol=0, atol=1e-5)


def test_statistics_are_those_of_the_windows_frames() -> None:
    audio = sound(2, 8000)
    names = ["mean", "std", "max", "min", "slope"]
    options = {"sample_rate": 8000, "n_mels": 30, "window": 0.5, "statistics": "+".join(names)}
    stream = build_audio_extractor("logmel", 0.5, options)
    rows = stream.push(audio).reshape(4, 5, 30)
    assert stream.spec.width == 150 and stream.spec.weights is None
    window = mel_frames(audio, 8000, 30, 40.0)[100 : 100 + 48]  # row 2: 1.0 s to 1.5 s
    times = 0.01 * np.arange(48)
    slopes = [np.polyfit(times, window[:, band], 1)[0] for band in range(30)]
    expected = [window.mean(0), window.std(0), window.max(0), window.min(0), slopes]
    np.testing.assert_allclose(rows[2], np.stack(expected), rtol=1e-5, atol=1e-4)


def test_stacked_frames_keep_the_course_of_time() -> None:
    audio = sound(1, 16000)
    stream = build_audio_extractor("logmel", 0.1, {"n_mels": 24, "window": 0.215, "frames": 4})
    rows = stream.push(audio).reshape(10, 4, 24)
    frames = mel_frames(audio, 16000, 24, 40.0)
    begin = (5 * 1600 - 3440) // 160  # row 4 ends at 0.5 s
    expected = frames[begin : begin + 20].reshape(4, 5, 24).mean(1)
    np.testing.assert_allclose(rows[4], expected, rtol=0, atol=1e-5)


def test_the_default_window_leaves_no_gap() -> None:
    """At a hop of 50 ms every row has five frames of its own, and each frame of the stream is in one row."""
    audio = sound(1, 16000)
    rows = build_audio_extractor("logmel", 0.05, {"n_mels": 16, "frames": 5}).push(audio).reshape(-1, 16)
    frames = mel_frames(np.concatenate([np.zeros(240 + 80, np.float32), audio]), 16000, 16, 40.0)
    assert len(rows) == 100
    np.testing.assert_allclose(rows, frames[:100], rtol=0, atol=1e-5)


def test_the_relative_level_follows_the_loudest_frame_so_far() -> None:
    audio = sound(3, 16000)
    audio[16000:20000] *= 20
    options = {"n_mels": 24, "frames": 5}
    absolute = build_audio_extractor("logmel", 0.05, options).push(audio)
    relative = build_audio_extractor("logmel", 0.05, {**options, "level": "relative"}).push(audio)
    level, expected = -6.0, []
    for row in absolute:
        for frame in row.reshape(5, 24):
            level = max(level - 0.002, float(frame.max()), -6.0)
        expected.append(row - level)
    np.testing.assert_allclose(relative, np.stack(expected), rtol=0, atol=1e-4)
    quiet = build_audio_extractor("logmel", 0.05, {**options, "level": "relative"}).push(0.2 * audio)
    loud = relative > -8  # below, the offset in the logarithm counts
    np.testing.assert_allclose(quiet[loud], relative[loud], rtol=0, atol=0.02)


def test_a_specification_builds_the_same_extractor_again() -> None:
    audio = sound(1, 8000)
    first = build_audio_extractor("logmel", 0.1, {"sample_rate": 8000, "n_mels": 20, "frames": 3})
    second = build_audio_extractor("logmel", 0.1, dict(first.spec.options))
    assert second.spec == first.spec
    np.testing.assert_array_equal(second.push(audio), first.push(audio))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_rate": 4000}, "at least 8000 Hz"),
        ({"n_mels": 0}, "at least one mel band"),
        ({"window": 0.01}, "window of at least 0.025 s"),
        ({"statistics": "mean+median"}, "no statistic 'median'"),
        ({"level": "loud"}, "no level 'loud': choose from absolute, relative"),
        ({"frames": -1}, "cannot cut a window into -1 pieces"),
    ],
)
def test_impossible_values_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_audio_extractor("logmel", 0.1, options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_mels": 400, "sample_rate": 8000}, "too narrow"),
        ({"lowest": 9000.0}, "the limit is 8000 Hz"),
        ({"highest": 9000.0}, "the limit is 8000 Hz"),
        ({"frames": 50}, "cannot be cut into 50 pieces"),
    ],
)
def test_values_that_do_not_go_together_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build_audio_extractor("logmel", 0.1, options)


@pytest.mark.shared
def test_rows_tell_spoken_digits_apart(shared_dir: Path) -> None:
    """A nearest-mean classifier over a few takes of one speaker: the rows carry what was said."""
    import soundfile

    def clip(digit: int, take: int) -> NDArray[np.float32]:
        audio, _ = soundfile.read(shared_dir / "spoken_digits" / f"{digit}_george_{take}.flac", dtype="float32")
        options = {"sample_rate": 8000, "n_mels": 32, "window": len(audio) / 8000, "frames": 6}
        return build_audio_extractor("logmel", len(audio) / 8000, options).push(audio)[0]

    means = np.stack([np.mean([clip(digit, take) for take in range(6)], 0) for digit in range(10)])
    right = sum(
        int(np.linalg.norm(means - clip(digit, take), axis=1).argmin()) == digit
        for digit in range(10)
        for take in range(6, 10)
    )
    assert right >= 34  # of 40
