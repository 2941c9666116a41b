"""Makes demo.ogg, the clip that `cotrans demo` streams: three sounds synthesised from random numbers and sines.

    python weights/demo/make_demo_clip.py [OUT.ogg]

Clock ticks, rain and a helicopter, a few seconds each with short fades. Nothing in it was recorded, so
nobody holds rights in it, and a seed makes it the same every time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RATE = 22_050  # Hz
SECONDS = 7.0  # of each sound
FADE = 0.15  # seconds

Samples = NDArray[np.float64]


def coloured_noise(random: np.random.Generator, length: int, slope: float) -> Samples:
    """Noise whose power falls with frequency to the power of `slope` (0: white, 1: pink, 2: brown)."""
    spectrum = np.fft.rfft(random.standard_normal(length))
    frequency = np.maximum(np.fft.rfftfreq(length, 1 / RATE), 20.0)
    noise = np.fft.irfft(spectrum / frequency ** (slope / 2), length)
    return np.asarray(noise / np.abs(noise).max())


def clock_ticks(random: np.random.Generator, time: Samples) -> Samples:
    """Two ticks a second, each a short burst of damped resonances, the second of a pair a little lower."""
    sound = 0.002 * random.standard_normal(len(time))
    for index, start in enumerate(np.arange(0.1, time[-1], 0.5)):
        t = time - start
        pitch = 1.0 if index % 2 else 0.85
        ring = sum(a * np.sin(2 * np.pi * f * pitch * t) for f, a in ((2400, 1.0), (3900, 0.7), (6100, 0.5)))
        sound += np.where(t >= 0, ring * np.exp(-np.maximum(t, 0) * 220), 0.0)
    return 0.5 * sound / np.abs(sound).max()


def rain(random: np.random.Generator, time: Samples) -> Samples:
    """A steady hiss with many single drops in it."""
    hiss = coloured_noise(random, len(time), 1.0)
    drops = np.zeros(len(time))
    places = random.integers(0, len(time), int(800 * SECONDS))
    drops[places] = random.exponential(1.0, len(places))
    drop = np.exp(-np.arange(60) / 12) * np.sin(np.arange(60) * 1.6)
    drops = np.convolve(drops, drop)[: len(time)]
    return 0.35 * hiss + 0.4 * drops / np.abs(drops).max()


def helicopter(random: np.random.Generator, time: Samples) -> Samples:
    """Blade slaps sixteen times a second over low engine noise."""
    slap = np.clip(np.sin(2 * np.pi * 16 * time), 0, None)
    low = coloured_noise(random, len(time), 2.0)
    mid = coloured_noise(random, len(time), 1.0)
    sound = 0.9 * slap * low + 0.1 * slap * mid + 0.4 * low
    return np.asarray(0.7 * sound / np.abs(sound).max())


def demo_clip() -> Samples:
    """All sounds one after the other: (samples,)."""
    time = np.arange(int(SECONDS * RATE)) / RATE
    fade = np.clip(np.minimum(time, time[::-1]) / FADE, 0, 1)
    random = np.random.default_rng(7)
    sounds: list[Callable[[np.random.Generator, Samples], Samples]] = [clock_ticks, rain, helicopter]
    return np.concatenate([fade * sound(random, time) for sound in sounds])


if __name__ == "__main__":
    import soundfile

    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("demo.ogg")
    soundfile.write(target, demo_clip(), RATE, format="OGG", subtype="VORBIS")
