"""Changed copies of training clips, made once and cached: what a model should not depend on.

A model that hears one codec in training learns the codec too, and is worse on sound that never went through it. So a
copy is played a little faster or slower, its spectrum is tilted as by another microphone, noise is added, and it goes
through a codec at a low rate or through 8 bits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pipelines.datasets.item import Item
from pipelines.datasets.mixing.prepared_folder import INDEX, prepared_folder
from pipelines.datasets.mixing.sound_files import read_sound, write_sound
from pipelines.datasets.mixing.stream_mixer import Samples, coloured, coloured_noise
from pipelines.files import write_text

VERSION = 1  # of the changes: another number makes other copies
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


def changed_copies(
    items: Sequence[Item], copies: int, root: Path, chosen: Collection[str] | None = None, seed: int = 0
) -> list[Item]:
    """So many copies of each item that has sound, with its label.

    chosen: the names of the items whose copies are wanted. All are made, so that another choice, of another fold, finds
    its own.
    """
    sounding = [item for item in items if item.media is not None]
    made = []
    for copy in range(1, copies + 1):
        files = [[str(item.media), Path(str(item.media)).stat().st_size] for item in sounding]
        identity = json.dumps([VERSION, seed, copy, str(root.resolve()), files])

        def make(folder: Path, copy: int = copy) -> None:
            _make_all(folder, sounding, [seed, copy])

        paths = [item.media for item in sounding if item.media is not None]
        folder = prepared_folder(f"{root.resolve().name}-copy-{copy}", identity, make, paths)
        names = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        made += [
            replace(
                item,
                name=f"{item.name}, copy {copy}",
                media=folder / name,
                duration=None,
                features=(),
                copy_of=item.name,
            )
            for item, name in zip(sounding, names, strict=True)
            if chosen is None or item.name in chosen
        ]
    return made


def _make_all(folder: Path, items: Sequence[Item], seed: list[int]) -> None:
    names = []
    for number, item in enumerate(items):
        # A generator for each item: copies stay what they are when other items come or go.
        generator = np.random.default_rng([*seed, *item.name.encode()])
        codec = CODECS[int(generator.integers(len(CODECS)))]
        names.append(f"{number:05d}{codec.suffix}")
        bit_rate = int(generator.choice(codec.bit_rates)) if codec.bit_rates else None
        sound = changed(read_sound(Path(str(item.media)), RATE), generator)
        write_sound(folder / names[-1], sound, RATE, codec.encoder, bit_rate)
    write_text(folder / INDEX, json.dumps(names))


def changed(samples: Samples, generator: np.random.Generator) -> Samples:
    """(n,) at `RATE` to another number of samples: the same sound from another loudspeaker."""
    import soxr

    factor = float(generator.uniform(1 - SPEED, 1 + SPEED))
    sound = np.asarray(soxr.resample(samples, RATE * factor, RATE), dtype=np.float32)
    sound = coloured(sound, RATE, COLOUR, generator)
    decibels = generator.uniform(*LEVEL)
    if generator.random() < NOISE_CHANCE:
        below = generator.uniform(*NOISE)
        level = float(np.sqrt(np.mean(sound**2))) * 10 ** (-below / 20)
        sound = sound + coloured_noise(len(sound), RATE, generator) * np.float32(level)
    return np.asarray(np.clip(sound * 10 ** (decibels / 20), -1.0, 1.0), dtype=np.float32)
