"""`librosa:mfcc`, `librosa:chroma` and the rest of what librosa computes frame by frame, as streaming extractors.

A frame is what librosa gives for the samples of that frame alone (`center=False`), in librosa's own sizes: 22,050 Hz,
frames of 2,048 samples every 512. So nothing depends on what comes later in a recording, which some of librosa's
defaults do: a tuning that is estimated from the whole of it, and decibels below its loudest moment. A row sums up the
frames of its window, as in `logmel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError, UsageError
from pipelines.features.audio.mel import Frames, Samples
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.audio.window_statistics import chosen_statistics, summed
from pipelines.features.audio.windowed import WindowedExtractor, of_windows
from pipelines.features.spec import Align, ExtractorSpec, Option

PREFIX = "librosa:"
MOST_DECIBELS = 80.0  # below a frame's loudest band, as in librosa's `power_to_db`
LOWEST_RATE = 8000  # Hz

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Framed:
    """Samples, and what all features of them share."""

    samples: Values  # (samples,)
    magnitude: Values  # (n_fft // 2 + 1, frames)
    rate: int
    n_fft: int
    hop: int
    size: int


@dataclass(frozen=True)
class FrameFeature:
    """One feature of librosa. compute: to (width, frames)."""

    compute: Callable[[Any, Framed], Values]  # the module librosa comes first: it is imported when it is needed
    size: int = 0  # librosa's own number of coefficients, bands or classes; 0: there is no such choice
    width: Callable[[int], int] = lambda size: size


def _mel(librosa: Any, framed: Framed, bands: int) -> Values:
    power = librosa.feature.melspectrogram(S=framed.magnitude**2, sr=framed.rate, n_fft=framed.n_fft, n_mels=bands)
    return np.asarray(librosa.power_to_db(power, top_db=None))


def _mfcc(librosa: Any, framed: Framed) -> Values:
    decibels = _mel(librosa, framed, 128)
    decibels = np.maximum(decibels, decibels.max(axis=0) - MOST_DECIBELS)
    return np.asarray(librosa.feature.mfcc(S=decibels, sr=framed.rate, n_mfcc=framed.size))


def _chroma(librosa: Any, framed: Framed) -> Values:
    return np.asarray(
        librosa.feature.chroma_stft(
            S=framed.magnitude**2, sr=framed.rate, n_fft=framed.n_fft, n_chroma=framed.size, tuning=0.0
        )
    )


def _contrast(librosa: Any, framed: Framed) -> Values:
    # Its decibels are below the loudest of all frames that it is given, so it is given one at a time.
    columns = [
        librosa.feature.spectral_contrast(S=framed.magnitude[:, [frame]], sr=framed.rate, n_bands=framed.size)
        for frame in range(framed.magnitude.shape[1])
    ]
    return np.concatenate(columns, axis=1)


def _tonnetz(librosa: Any, framed: Framed) -> Values:
    chroma = librosa.feature.chroma_stft(S=framed.magnitude**2, sr=framed.rate, n_fft=framed.n_fft, tuning=0.0)
    return np.asarray(librosa.feature.tonnetz(chroma=chroma, sr=framed.rate))


def _spectral(name: str) -> Callable[[Any, Framed], Values]:
    def compute(librosa: Any, framed: Framed) -> Values:
        function = getattr(librosa.feature, name)
        return np.asarray(function(S=framed.magnitude, sr=framed.rate, n_fft=framed.n_fft, hop_length=framed.hop))

    return compute


def _flatness(librosa: Any, framed: Framed) -> Values:
    return np.asarray(librosa.feature.spectral_flatness(S=framed.magnitude))


def _of_samples(name: str) -> Callable[[Any, Framed], Values]:
    def compute(librosa: Any, framed: Framed) -> Values:
        function = getattr(librosa.feature, name)
        return np.asarray(function(y=framed.samples, frame_length=framed.n_fft, hop_length=framed.hop, center=False))

    return compute


def _one(_: int) -> int:
    return 1


FEATURES: Mapping[str, FrameFeature] = {
    "mfcc": FrameFeature(_mfcc, 20),
    "mel": FrameFeature(lambda librosa, framed: _mel(librosa, framed, framed.size), 128),
    "chroma": FrameFeature(_chroma, 12),
    "tonnetz": FrameFeature(_tonnetz, width=lambda _: 6),
    "contrast": FrameFeature(_contrast, 6, lambda bands: bands + 1),
    "centroid": FrameFeature(_spectral("spectral_centroid"), width=_one),
    "bandwidth": FrameFeature(_spectral("spectral_bandwidth"), width=_one),
    "rolloff": FrameFeature(_spectral("spectral_rolloff"), width=_one),
    "flatness": FrameFeature(_flatness, width=_one),
    "poly": FrameFeature(_spectral("poly_features"), width=lambda _: 2),
    "rms": FrameFeature(_of_samples("rms"), width=_one),
    "zero_crossings": FrameFeature(_of_samples("zero_crossing_rate"), width=_one),
}


@dataclass(frozen=True, eq=False)
class LibrosaFrontEnd:
    """Frame k sees `n_fft` samples from k * frame_hop on."""

    feature: FrameFeature
    sample_rate: int
    n_fft: int  # samples
    frame_hop: int  # samples
    size: int

    @property
    def bands(self) -> int:
        return self.feature.width(self.size)

    def frames(self, samples: Samples) -> Frames:
        """(samples,) to (frames, bands): every frame that fits into `samples`, the first one at its start."""
        count = (len(samples) - self.n_fft) // self.frame_hop + 1
        if count < 1:
            return np.zeros((0, self.bands), np.float32)
        import librosa

        # In float64, rounded at the end: a frame's numbers do not depend on how many come with it.
        used = samples[: (count - 1) * self.frame_hop + self.n_fft].astype(np.float64)
        magnitude = np.abs(librosa.stft(used, n_fft=self.n_fft, hop_length=self.frame_hop, center=False))
        framed = Framed(used, magnitude, self.sample_rate, self.n_fft, self.frame_hop, self.size)
        return np.ascontiguousarray(self.feature.compute(librosa, framed).T, dtype=np.float32)


def build_librosa(
    feature: str,
    hop: float,
    sample_rate: int = 22050,
    n_fft: int = 2048,
    hop_length: int = 512,
    size: int = 0,
    window: float = 0.0,
    statistics: str = "mean+std",
    align: Align = "causal",
) -> WindowedExtractor:
    """`size`: how many coefficients (mfcc), bands (mel, contrast) or classes (chroma); 0: as many as librosa has.

    `window` in seconds (0: one hop, and at least one frame), `n_fft` and `hop_length` in samples, as in librosa.
    """
    chosen, name = FEATURES[feature], f"{PREFIX}{feature}"
    if size < 0 or (size and not chosen.size):
        raise UsageError(f"{name} cannot have a size of {size}: leave the option out")
    size = size or chosen.size
    if sample_rate < LOWEST_RATE or n_fft < 16 or hop_length < 1:
        raise UsageError(
            f"{name} needs a sample_rate of at least {LOWEST_RATE}, an n_fft of at least 16 and a hop_length of at "
            f"least 1, not {sample_rate}, {n_fft} and {hop_length}"
        )
    summaries = chosen_statistics(name, statistics)
    window = window or max(hop, n_fft / sample_rate)
    length = round(window * sample_rate)
    if length < n_fft:
        raise UsageError(f"{name} needs a window of at least {n_fft / sample_rate:.3g} s, a frame, not {window:g}")
    front_end = LibrosaFrontEnd(chosen, sample_rate, n_fft, hop_length, size)
    _try_out(front_end, name)
    options: dict[str, Option] = {"sample_rate": sample_rate, "n_fft": n_fft, "hop_length": hop_length}
    options |= {"size": size} if chosen.size else {}
    options |= {"window": window, "statistics": statistics}
    spec = ExtractorSpec(name, "audio", front_end.bands * len(summaries), window, options)
    count = (length - n_fft) // hop_length + 1
    clock = SampleClock(hop, sample_rate, length, align)
    return WindowedExtractor(spec, clock, front_end, count, of_windows(count, summed(summaries)))


def _try_out(front_end: LibrosaFrontEnd, name: str) -> None:
    """Sizes that librosa cannot work with are told before there is any sound."""
    import librosa

    try:
        rows = front_end.frames(np.zeros(front_end.n_fft, np.float32))
    except librosa.util.exceptions.ParameterError as error:
        raise ConfigurationError(f"librosa cannot compute {name} like that: {error}") from error
    if rows.shape != (1, front_end.bands):
        raise ConfigurationError(f"librosa cannot compute {front_end.size} numbers of {name}: choose a smaller size")


BUILDERS = {f"{PREFIX}{feature}": partial(build_librosa, feature) for feature in FEATURES}
