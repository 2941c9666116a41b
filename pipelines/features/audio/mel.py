"""Mel front ends: samples to log-mel frames on a fixed grid, each computed once however windows overlap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]  # (samples,)
Frames = NDArray[np.float32]  # (frames, bands)
BLOCK_FRAMES = 128  # that are computed at a time: the numbers of more leave the cache, and take twice as long


@dataclass(frozen=True, eq=False)
class MelFrontEnd:
    """Frame k sees `frame_length` samples from k * frame_hop on and gives log(scale * mel + offset).

    The work is done in float64 and rounded at the end: a frame's numbers do not depend on its neighbours.
    """

    sample_rate: int
    frame_length: int  # samples
    frame_hop: int  # samples
    fft_length: int
    filters: NDArray[np.float64]  # (fft_length // 2 + 1, bands)
    exponent: Literal[1, 2]  # filters act on the magnitude (1) or on the power (2)
    scale: float
    offset: float
    base: Literal["e", "10"]  # of the logarithm
    margin: int = 0  # samples at either end of a frame that its window leaves out

    @property
    def bands(self) -> int:
        return int(self.filters.shape[1])

    @property
    def loudest(self) -> float:
        """What a band cannot exceed before the logarithm, for samples in [-1, 1]."""
        magnitude = float(periodic_hann(self.frame_length - 2 * self.margin).sum())
        return self.scale * magnitude**self.exponent * float(self.filters.sum(0).max()) + self.offset

    def span(self, frames: int) -> int:
        """Samples that so many frames in a row see."""
        return (frames - 1) * self.frame_hop + self.frame_length

    def frames(self, samples: Samples) -> Frames:
        """(samples,) to (frames, bands): every frame that fits into `samples`, the first one at its start."""
        if len(samples) < self.frame_length:
            return np.zeros((0, self.bands), np.float32)
        return self._of_views(self._views(samples))

    def frames_together(self, streams: Sequence[Samples]) -> list[Frames]:
        """`frames` of each of some streams; those of streams with as many frames are computed together."""
        by_count: dict[int, list[int]] = defaultdict(list)  # streams by number
        for number, samples in enumerate(streams):
            by_count[max(0, (len(samples) - self.frame_length) // self.frame_hop + 1)].append(number)
        results: dict[int, Frames] = {}
        for count, numbers in by_count.items():
            if count == 0 or len(numbers) == 1 or count >= BLOCK_FRAMES:
                results |= {number: self.frames(streams[number]) for number in numbers}
                continue
            sound = np.stack([streams[number][: self.span(count)] for number in numbers])
            frames = self._of_views(self._views(sound).reshape(-1, self.frame_length))
            results |= dict(zip(numbers, frames.reshape(len(numbers), count, -1), strict=True))
        return [results[number] for number in range(len(streams))]

    def _views(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """(…, samples) to (…, frames, frame_length): what each frame sees."""
        views = np.lib.stride_tricks.sliding_window_view(samples, self.frame_length, axis=-1)
        return views[..., :: self.frame_hop, :]

    def _of_views(self, views: NDArray[np.float32]) -> Frames:
        """(frames, frame_length) to (frames, bands)."""
        frames = np.empty((len(views), self.bands), np.float32)
        for begin in range(0, len(views), BLOCK_FRAMES):
            frames[begin : begin + BLOCK_FRAMES] = self._block(views[begin : begin + BLOCK_FRAMES])
        return frames

    def _block(self, views: Samples) -> NDArray[np.float64]:
        """(frames, frame_length) to (frames, bands)."""
        first, columns = self._columns
        spectrum = np.fft.rfft(views * self._window, self.fft_length)[:, first : first + len(columns)]
        magnitude = np.abs(spectrum) if self.exponent == 1 else spectrum.real**2 + spectrum.imag**2
        mel = self.scale * (magnitude @ columns) + self.offset
        return np.asarray(np.log(mel) if self.base == "e" else np.log10(mel))

    @cached_property
    def _window(self) -> NDArray[np.float64]:
        """(frame_length,)"""
        return np.pad(periodic_hann(self.frame_length - 2 * self.margin), self.margin)

    @cached_property
    def _columns(self) -> tuple[int, NDArray[np.float64]]:
        """The first line of `filters` that is not all zeros, and the lines from there to the last such one."""
        used = np.flatnonzero(self.filters.any(1))
        first, last = (int(used[0]), int(used[-1])) if len(used) else (0, 0)
        return first, np.ascontiguousarray(self.filters[first : last + 1])


def periodic_hann(length: int) -> NDArray[np.float64]:
    """A raised cosine of which `length` samples are one full period."""
    return np.asarray(0.5 - 0.5 * np.cos(2 * np.pi / length * np.arange(length)))


def vggish_front_end() -> MelFrontEnd:
    """torchvggish's: 16 kHz, 25 ms frames every 10 ms, magnitudes, 64 HTK bands from 125 to 7500 Hz, log(x + 0.01)."""
    from pipelines.features.audio.torchvggish_parts import parameters

    theirs = parameters()
    rate = theirs.SAMPLE_RATE
    frame_length = round(theirs.STFT_WINDOW_LENGTH_SECONDS * rate)
    fft_length = 2 ** (frame_length - 1).bit_length()
    return MelFrontEnd(
        sample_rate=rate,
        frame_length=frame_length,
        frame_hop=round(theirs.STFT_HOP_LENGTH_SECONDS * rate),
        fft_length=fft_length,
        filters=_htk_filters(rate, fft_length, theirs.NUM_MEL_BINS, theirs.MEL_MIN_HZ, theirs.MEL_MAX_HZ),
        exponent=1,
        scale=1.0,
        offset=theirs.LOG_OFFSET,
        base="e",
    )


def musicnn_front_end() -> MelFrontEnd:
    """16 kHz, FFT 512, hop 256, power, librosa's 96 bands, log10(10000 x + 1).

    musicnn itself also rounds the mel power to float16, which overflows on loud music. That is left out.
    """
    return MelFrontEnd(16000, 512, 256, 512, slaney_filters(16000, 512, 96, 0.0, 8000.0), 2, 10000.0, 1.0, "10")


def speech_front_end() -> MelFrontEnd:
    """16 kHz, 25 ms in the middle of frames of 32 ms, every 10 ms, power, librosa's 32 bands from 60 to 3800 Hz.

    Samples count as 16-bit numbers, and the result is log10(x) + 2, with x at least 1e-10.
    """
    columns, unit = slaney_filters(16000, 512, 32, 60.0, 3800.0), 100.0  # log10(100 x) = log10(x) + 2
    return MelFrontEnd(16000, 512, 160, 512, columns, 2, unit * 32768.0**2, unit * 1e-10, "10", margin=56)


def general_front_end(
    sample_rate: int, bands: int, lowest: float, highest: float, frame_length: int, frame_hop: int
) -> MelFrontEnd:
    """Power, librosa's filter bank between two frequencies in hertz, log(x + 1e-6)."""
    # Twice the length that the frame needs: the low bands are narrow, and must not fall between two FFT bins.
    fft_length = 2 * 2 ** (frame_length - 1).bit_length()
    columns = slaney_filters(sample_rate, fft_length, bands, lowest, highest)
    return MelFrontEnd(sample_rate, frame_length, frame_hop, fft_length, columns, 2, 1.0, 1e-6, "e")


def slaney_filters(rate: int, fft_length: int, bands: int, lowest: float, highest: float) -> NDArray[np.float64]:
    """(fft_length // 2 + 1, bands): librosa's `filters.mel`, triangles of area 1 that are straight in hertz.

    Bands that fall between two FFT bins are empty. librosa itself would bring numba and scipy into every audio command.
    """
    low, high = _slaney_mel(np.array([lowest, highest]))
    edges = _slaney_hertz(np.linspace(low, high, bands + 2))
    bins = np.fft.rfftfreq(fft_length, 1.0 / rate)
    distance, width = edges[:, None] - bins, np.diff(edges)[:, None]
    triangles = np.maximum(0.0, np.minimum(-distance[:-2] / width[:-1], distance[2:] / width[1:]))
    triangles *= (2.0 / (edges[2:] - edges[:-2]))[:, None]
    return np.ascontiguousarray(triangles.T)


# The mel scale of Slaney's Auditory Toolbox: straight up to 1 kHz, logarithmic above.
_MEL_HERTZ = 200.0 / 3  # per mel, below
_BREAK_HERTZ = 1000.0
_BREAK_MEL = _BREAK_HERTZ / _MEL_HERTZ
_LOG_STEP = np.log(6.4) / 27.0  # per mel, above


def _slaney_mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _BREAK_MEL + np.log(np.maximum(hertz, _BREAK_HERTZ) / _BREAK_HERTZ) / _LOG_STEP
    return np.where(hertz >= _BREAK_HERTZ, above, hertz / _MEL_HERTZ)


def _slaney_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _BREAK_HERTZ * np.exp(_LOG_STEP * (np.maximum(mel, _BREAK_MEL) - _BREAK_MEL))
    return np.where(mel >= _BREAK_MEL, above, _MEL_HERTZ * mel)


def _htk_filters(rate: int, fft_length: int, bands: int, lowest: float, highest: float) -> NDArray[np.float64]:
    """(fft_length // 2 + 1, bands): triangles of height 1, straight on the mel scale, as in AudioSet."""

    def mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(1127.0 * np.log(1.0 + hertz / 700.0))

    bins = mel(np.linspace(0.0, rate / 2, fft_length // 2 + 1))[:, None]
    low, high = mel(np.array([lowest, highest]))
    edges = np.linspace(low, high, bands + 2)
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
    filters: NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling))
    filters[0] = 0.0  # the constant part of the signal never counts
    return filters
