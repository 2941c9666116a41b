"""Speech in which nobody says anything of interest: the digits that ship, one after the other, by several voices.

Made from random numbers but for the voices, as the other foreign sounds are, and the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from pipelines.datasets.mixing.foreign_sound import LEVELS, RATE, MadeSound
from pipelines.datasets.mixing.sound_files import read_sound
from pipelines.datasets.mixing.stream_mixer import Samples
from pipelines.datasets.published.digit_streams import SAMPLE

SPEECH = "speech"
SEED = 20_261_118
SPEEDS = 0.85, 1.2  # higher and lower voices, too
PAUSES = 0.03, 0.1, 0.3  # seconds between two words, give or take half of it
NOISE = 1e-5, 3e-3  # deviation of what else is heard


def spoken_sounds(seconds: float, count: int = 16) -> Iterator[MadeSound]:
    """So many sounds of `seconds`."""
    for copy in range(count):
        yield _spoken(seconds, np.random.default_rng([SEED, copy]))


def _spoken(seconds: float, generator: np.random.Generator) -> MadeSound:
    import soxr

    speed, wanted = generator.uniform(*SPEEDS), round(seconds * RATE)
    parts: list[Samples] = []
    while sum(map(len, parts)) < wanted:
        words = _words()
        word = words[int(generator.integers(len(words)))]
        parts.append(np.asarray(soxr.resample(word, RATE * speed, RATE), np.float32))
        pause = generator.choice(PAUSES) * generator.uniform(0.5, 1.5)
        parts.append(np.zeros(round(pause * RATE), np.float32))
    level, noise = (np.exp(generator.uniform(*np.log(bounds))) for bounds in (LEVELS, NOISE))
    sound = level * np.concatenate(parts)[:wanted] + noise * generator.standard_normal(wanted)
    return MadeSound(SPEECH, np.clip(sound, -1.0, 1.0).astype(np.float32), RATE)


@cache
def _words() -> tuple[Samples, ...]:
    """The recordings that ship, as loud as each other."""
    words = (read_sound(path, RATE) for path in sorted(Path(SAMPLE).glob("*.flac")))
    return tuple(word / np.float32(max(float(np.abs(word).max()), 1e-6)) for word in words)
