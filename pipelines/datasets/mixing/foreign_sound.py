"""Sounds that belong to no class of anybody: silence, noises, tones, sweeps, bells, clicks, made from random numbers.

A model that is to say "none of these" has to be shown some of what is not these. Recordings of other kinds are better
and have to be found first; these are always at hand, and the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RATE = 16_000  # Hz
# White noise ends at half its rate, and what is left of it there after resampling tells it from rain, or does not.
NOISE_RATES = 16_000, 44_100, 22_050, 48_000, 8_000, 32_000, 11_025
EIGHT_BITS = 8  # every eighth white noise has eight bits only
SEED = 20_231_116
LEVELS = 0.03, 0.8  # peaks
WHITE_NOISE = "white noise"
# Silence: the noise of an open line. White noise is none of anybody's classes at any level.
OTHER_LEVELS = {"silence": (3e-5, 1e-3), WHITE_NOISE: (1e-4, 1.0)}

Samples = NDArray[np.float64]
Maker = Callable[[Samples, np.random.Generator], Samples]


class MadeSound(NamedTuple):
    """A sound that belongs to no class."""

    kind: str
    samples: NDArray[np.float32]  # (n,)
    rate: int  # Hz


def foreign_sounds(seconds: float, each: int = 4) -> Iterator[MadeSound]:
    """Sounds of `seconds`, `each` of every kind, more of silence and noise."""
    for kind in KINDS:
        for copy in range(each * OFTENER.get(kind, 1)):
            yield made_sound(kind, copy, seconds)


def made_sound(kind: str, copy: int, seconds: float) -> MadeSound:
    """The sound of a kind and a number, the same every time."""
    rate = NOISE_RATES[copy % len(NOISE_RATES)] if kind == WHITE_NOISE else RATE
    times = np.arange(max(1, round(seconds * rate))) / rate
    generator = np.random.default_rng([SEED, list(KINDS).index(kind), copy])
    sound = KINDS[kind](times, generator)
    peak = float(np.abs(sound).max())
    low, high = OTHER_LEVELS.get(kind, LEVELS)
    level = np.exp(generator.uniform(np.log(low), np.log(high)))
    sound = sound * (level / peak if peak else 0.0)
    if kind == WHITE_NOISE and copy % EIGHT_BITS == 0:
        sound = np.floor(128 * sound) / 128  # whatever is quiet becomes two values, with an offset
    return MadeSound(kind, sound.astype(np.float32), rate)


def _silence(times: Samples, generator: np.random.Generator) -> Samples:
    """Digital silence every other time."""
    return _coloured(times, generator, 1.0) if generator.random() < 0.5 else np.zeros_like(times)


def _white(times: Samples, generator: np.random.Generator) -> Samples:
    """Of either common distribution, with a pause or without: rows that reach back hear both.

    Every other time it begins after a pause, in half of these it fades in; one in four ends before one.
    """
    sound = generator.standard_normal(len(times)) if generator.random() < 0.5 else generator.uniform(-1, 1, len(times))
    if generator.random() < 0.5:
        return sound if generator.random() < 0.5 else sound * (times < generator.uniform(0.3, 0.8) * times[-1])
    begin = generator.uniform(0.0, times[-1] / 2)
    if generator.random() < 0.5:
        return np.asarray(sound * (times >= begin))
    return np.asarray(sound * np.clip(times / max(begin, 1e-3), 0.0, 1.0))


def _coloured(times: Samples, generator: np.random.Generator, slope: float | None = None) -> Samples:
    """Noise whose power falls with frequency: pink at slope 1, brown at 2."""
    slope = generator.uniform(0.5, 2.0) if slope is None else slope
    spectrum = np.fft.rfft(generator.standard_normal(len(times)))
    frequencies = np.maximum(np.fft.rfftfreq(len(times), 1 / RATE), 20.0)
    return np.asarray(np.fft.irfft(spectrum / frequencies ** (slope / 2), len(times)))


def _band(times: Samples, generator: np.random.Generator) -> Samples:
    """A band of noise that swells: machines, breath, wind."""
    spectrum = np.fft.rfft(generator.standard_normal(len(times)))
    frequencies = np.fft.rfftfreq(len(times), 1 / RATE)
    low = 10 ** generator.uniform(1.8, 3.4)
    spectrum[(frequencies < low) | (frequencies > low * generator.uniform(1.3, 4.0))] = 0
    swell = 1 + 0.9 * np.sin(2 * np.pi * generator.uniform(0.2, 8.0) * times)
    return np.asarray(np.fft.irfft(spectrum, len(times)) * swell)


def _tone(times: Samples, generator: np.random.Generator) -> Samples:
    return np.asarray(np.sin(2 * np.pi * 10 ** generator.uniform(2.0, 3.7) * times))


def _buzz(times: Samples, generator: np.random.Generator) -> Samples:
    """A saw tooth that wavers: engines, horns, alarms."""
    pitch = 10 ** generator.uniform(1.5, 3.0)
    phase = pitch * times + generator.uniform(0, 2) * np.sin(2 * np.pi * generator.uniform(0.1, 6.0) * times)
    return np.asarray(2 * (phase % 1.0) - 1)


def _sweep(times: Samples, generator: np.random.Generator) -> Samples:
    """A tone that rises or falls, again and again: sirens, birds, toys."""
    period = generator.uniform(0.2, 3.0)
    low, high = np.sort(10 ** generator.uniform(2.0, 3.8, 2))
    place = (times % period) / period
    pitch = low * (high / low) ** (place if generator.random() < 0.5 else 1 - place)
    return np.asarray(np.sin(2 * np.pi * np.cumsum(pitch) / RATE))


def _bell(times: Samples, generator: np.random.Generator) -> Samples:
    sound = np.zeros_like(times)
    pitch = generator.uniform(200, 1500)
    for begin in np.arange(0, times[-1] + 1e-9, generator.uniform(0.5, 2.0)):
        since = np.maximum(times - begin, 0.0)
        for ratio in (1.0, 2.01, 2.8, 4.1, 5.3):
            sound += np.exp(-since * generator.uniform(1, 5)) * np.sin(2 * np.pi * pitch * ratio * since) / ratio
    return sound


def _knocks(times: Samples, generator: np.random.Generator) -> Samples:
    """Short bursts of noise at irregular times: steps, doors, keys."""
    sound = np.zeros_like(times)
    for begin in generator.uniform(0, max(times[-1], 0.1), max(1, round(times[-1] * generator.uniform(1, 6)))):
        since = times - begin
        sound += np.where(since >= 0, np.exp(-np.maximum(since, 0) * generator.uniform(20, 200)), 0.0)
    return np.asarray(sound * generator.standard_normal(len(times)))


KINDS: dict[str, Maker] = {
    "silence": _silence,
    WHITE_NOISE: _white,
    "coloured noise": _coloured,
    "band of noise": _band,
    "tone": _tone,
    "buzz": _buzz,
    "sweep": _sweep,
    "bell": _bell,
    "knocks": _knocks,
}
# Rain, surf, wind and machines are such noises: a model that was taught that they are none would miss the real ones.
LIKE_WEATHER = ("coloured noise", "band of noise")
# How many times as often these are made: models must not miss them, and loud white noise is nearly rain.
OFTENER = {"silence": 6, WHITE_NOISE: 21}
ALWAYS_FOREIGN = ("silence", WHITE_NOISE)  # kinds that no model should have a name for
