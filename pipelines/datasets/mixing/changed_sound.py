"""The same sound from another loudspeaker, through another codec: what a model of sound should not depend on.

A model that hears one codec in training learns the codec too, and is worse on sound that never went through it. So a
copy is played a little faster or slower, its spectrum is tilted as by another microphone, noise is added, and it goes
through a codec at a low rate or through 8 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipelines.datasets.mixing.sound_files import read_sound, write_sound
from pipelines.datasets.mixing.stream_mixer import Samples, coloured, coloured_noise

RATE = 24000  # Hz: a rate that all of the codecs know
SPEED = 0.06  # largest relative change of speed, and of pitch with it: a semitone
COLOUR = 2.0  # decibels: deviation of the response
LEVEL = (-6.0, 3.0)  # decibels
NOISE_CHANCE = 0.5
NOISE = (25.0, 60.0)  # decibels below the sound


@dataclass(frozen=True)
class Codec:
    """An encoder of ffmpeg, and what its files are called."""

    encoder: str
    suffix: str
    bit_rates: tuple[int, ...] = ()  # bits per second; none: its own


CODECS = (
    Codec("libmp3lame", ".mp3", (24_000, 32_000, 48_000, 64_000)),
    Codec("libopus", ".opus", (16_000, 24_000, 32_000, 48_000)),
    Codec("aac", ".m4a", (24_000, 32_000, 48_000)),
    Codec("pcm_u8", ".wav"),
    Codec("pcm_mulaw", ".wav"),
)


def copy_sound(source: Path, folder: Path, stem: str, generator: np.random.Generator) -> str:
    """Write a changed copy of a file's sound, and give its name in the folder, whose suffix chance decides."""
    codec = CODECS[int(generator.integers(len(CODECS)))]
    bit_rate = int(generator.choice(codec.bit_rates)) if codec.bit_rates else None
    sound = changed(read_sound(source, RATE), generator)
    write_sound(folder / f"{stem}{codec.suffix}", sound, RATE, codec.encoder, bit_rate)
    return f"{stem}{codec.suffix}"


def changed(samples: Samples, generator: np.random.Generator, speed: float | None = None) -> Samples:
    """(n,) at `RATE` to another number of samples: the same sound from another loudspeaker.

    speed: how many times as fast it is played; None: chance decides.
    """
    import soxr

    if speed is None:
        speed = float(generator.uniform(1 - SPEED, 1 + SPEED))
    sound = np.asarray(soxr.resample(samples, RATE * speed, RATE), dtype=np.float32)
    sound = coloured(sound, RATE, COLOUR, generator)
    decibels = generator.uniform(*LEVEL)
    if generator.random() < NOISE_CHANCE:
        below = generator.uniform(*NOISE)
        level = float(np.sqrt(np.mean(sound**2))) * 10 ** (-below / 20)
        sound = sound + coloured_noise(len(sound), RATE, generator) * np.float32(level)
    return np.asarray(np.clip(sound * 10 ** (decibels / 20), -1.0, 1.0), dtype=np.float32)
