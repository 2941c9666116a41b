"""Music for the tests of musicnn, and its front end by other means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.features.audio.musicnn.shipped import description

RATE = 16000


def log_mel(audio: NDArray[np.float32]) -> NDArray[np.float64]:
    """(187, 96) by scipy and librosa, from exactly the samples of one patch."""
    import librosa
    from scipy.signal import stft

    _, _, spectrum = stft(audio.astype(np.float64), nperseg=512, noverlap=256, boundary=None, padded=False)
    power = np.abs(256 * spectrum) ** 2  # scipy divides by the sum of the window
    return np.log10(10000 * (librosa.filters.mel(sr=RATE, n_fft=512, n_mels=96) @ power).T + 1)


def music(shared_dir: Path, name: str, seconds: float = 15) -> NDArray[np.float32]:
    import soundfile
    import soxr

    file = shared_dir / "gtzan" / "genres" / name.split(".")[0] / f"{name}.ogg"
    audio, rate = soundfile.read(file, dtype="float32")
    return np.asarray(soxr.resample(audio[: int(seconds * rate)], rate, RATE), np.float32)


def musicnn_tags(path: Path) -> list[str]:
    """The names of the 50 tags of a weight file, in the order of the network's output."""
    return [str(tag) for tag in description(path)["tags"]]
