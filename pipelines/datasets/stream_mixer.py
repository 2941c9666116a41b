"""Putting recordings together into one stream, with pauses, room noise and bursts of noise between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]  # (n,) mono

SAMPLE_RATE = 8000  # Hz: that of the recordings
PAUSE = (0.15, 1.0)  # seconds between two recordings
LEVEL = (0.03, 0.12)  # root mean square of a recording in the stream: about 12 dB between soft and loud
NOISE = (15.0, 35.0)  # decibels by which the room noise of a stream is below the mean level
BURST_CHANCE = 0.3  # of a pause with a burst of noise in it: loudness alone must not give a word away
BURST = (0.05, 0.25)  # seconds
BURST_LEVEL = (0.01, 0.08)  # root mean square
MEAN_LEVEL = 0.06
PEAK = 0.98  # the largest sample of a stream
FADE = 0.005  # seconds at both ends of a recording and a burst: no clicks


@dataclass(frozen=True)
class Recording:
    label: int
    samples: Samples
    voice: str = ""  # whose

    @property
    def seconds(self) -> float:
        return len(self.samples) / SAMPLE_RATE

    def at_pitch(self, factor: float) -> Recording:
        """Played `factor` times as fast: pitch and formants are as much higher, and it is as much shorter."""
        import soxr

        return replace(self, samples=np.asarray(soxr.resample(self.samples, SAMPLE_RATE * factor, SAMPLE_RATE)))


def read_recording(path: Path) -> Samples:
    """The samples of a recording, mono at SAMPLE_RATE, with a root mean square of 1 and without an offset."""
    import soundfile
    import soxr

    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono = samples.mean(axis=1)
    if rate != SAMPLE_RATE:
        mono = soxr.resample(mono, rate, SAMPLE_RATE)
    mono = mono - mono.mean()
    level = float(np.sqrt(np.mean(mono**2)))
    return np.asarray(mono / max(level, 1e-6), dtype=np.float32)


def plan_streams(
    recordings: Sequence[Recording], seconds: float, passes: int, generator: np.random.Generator
) -> list[list[Recording]]:
    """Which recordings follow one another in which stream: each once per pass, in random order."""
    streams: list[list[Recording]] = []
    for _ in range(passes):
        filled = seconds  # a pass begins with a new stream
        for position in generator.permutation(len(recordings)):
            if filled >= seconds:
                streams.append([])
                filled = 0.0
            streams[-1].append(recordings[position])
            filled += recordings[position].seconds + sum(PAUSE) / 2
    return streams


def mix_stream(
    recordings: Sequence[Recording], generator: np.random.Generator
) -> tuple[Samples, list[tuple[float, float, int]]]:
    """One stream (n,) and what is in it: (start, end, label) in seconds."""
    pieces: list[Samples] = [_pause(generator)]
    events = []
    position = len(pieces[0])
    for recording in recordings:
        level = generator.uniform(*LEVEL)
        pause = _pause(generator)
        pieces += [_faded(recording.samples) * np.float32(level), pause]
        end = position + len(recording.samples)
        events.append((position / SAMPLE_RATE, end / SAMPLE_RATE, recording.label))
        position = end + len(pause)
    speech = np.concatenate(pieces)
    decibels = generator.uniform(*NOISE)
    noise = _coloured_noise(len(speech), generator) * np.float32(MEAN_LEVEL * 10 ** (-decibels / 20))
    mixed = speech + noise
    # A stream that would clip becomes softer as a whole.
    mixed *= np.float32(min(1.0, PEAK / float(np.abs(mixed).max())))
    return np.asarray(mixed, dtype=np.float32), events


def _pause(generator: np.random.Generator) -> Samples:
    samples = np.zeros(round(generator.uniform(*PAUSE) * SAMPLE_RATE), dtype=np.float32)
    if generator.random() < BURST_CHANCE:
        length = min(round(generator.uniform(*BURST) * SAMPLE_RATE), len(samples))
        start = int(generator.integers(0, len(samples) - length + 1))
        burst = _faded(_coloured_noise(length, generator)) * np.float32(generator.uniform(*BURST_LEVEL))
        samples[start : start + length] = burst
    return samples


def _coloured_noise(length: int, generator: np.random.Generator) -> Samples:
    """Noise with a root mean square of 1, of a random colour between white (power as f⁰) and brown (as 1/f²)."""
    size = 1 << (length - 1).bit_length()  # transforms of other lengths, primes above all, are slow
    spectrum = np.fft.rfft(generator.standard_normal(size))
    frequencies = np.fft.rfftfreq(size, 1 / SAMPLE_RATE)
    spectrum *= np.maximum(frequencies, 50.0) ** (-generator.uniform(0.0, 2.0) / 2)
    noise = np.fft.irfft(spectrum, size)[:length]
    return np.asarray(noise / np.sqrt(np.mean(noise**2)), dtype=np.float32)


def _faded(samples: Samples) -> Samples:
    length = min(round(FADE * SAMPLE_RATE), len(samples) // 2)
    ramp = np.linspace(0.0, 1.0, length, endpoint=False, dtype=np.float32)
    faded = samples.copy()
    faded[:length] *= ramp
    faded[len(faded) - length :] *= ramp[::-1]
    return faded
