"""Short clips in a row, as a stream plays them: one after the other, some with a pause, and what is heard of it.

Extractors look back. In a pause they still hear the word before it, and at the next word's beginning both; no clip by
itself sounds like that, and a model that knows clips alone names other words there. Nor does anybody know a word by its
first sound: what is said of a row is asked for late, when most of the word has been heard.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.item import Item
from pipelines.datasets.mixing.sound_files import Samples, read_sound
from pipelines.datasets.rows.frame_targets import frame_range
from pipelines.devices import one_thread
from pipelines.errors import InputError
from pipelines.features.stream_factory import StreamFactory
from pipelines.training.samples.recordings import Recording

RATE = 24_000  # Hz
CLIPS = 3  # in a recording
PAUSES = 0.7  # share of clips that are followed by one
LENGTHS = 0.1, 2.0  # of a pause, in clips of median length
LATE = 0.75  # of a clip, of median length at most: until so much of it has been heard, the label is the one before it
SILENCE = 0.5  # share of pauses that are digital silence
NOISE = -5.0, -3.0  # of the others: powers of ten, of their deviation
LEVELS = -3.0, 3.0  # decibels by which a clip is louder
SEED = 20_261_118


def clips_in_a_row(items: Sequence[Item], streams: StreamFactory, classes: int) -> tuple[Recording, ...]:
    """Recordings in which every clip that can be read is heard once, in an order that chance decides.

    A pause is labelled as the clip before it: what is still heard of it is no other. Labels begin late (`LATE`).
    """
    # Clips are read twice: all of them may not fit into memory.
    lengths = {place: len(sound) for place, item in enumerate(items) if (sound := _sound(item)) is not None}
    typical = float(np.median(list(lengths.values()))) if lengths else 0.0
    generator = np.random.default_rng(SEED)
    order = generator.permutation(list(lengths))
    recordings = []
    with one_thread():
        for begin in range(0, len(order), CLIPS):
            parts: list[Samples] = []
            starts: list[float] = []
            labels = []
            for place in order[begin : begin + CLIPS].tolist():
                level = 10 ** (generator.uniform(*LEVELS) / 20)
                sound = read_sound(Path(str(items[place].media)), RATE)
                late = LATE * min(len(sound), typical) if starts else 0.0
                starts.append(sum(map(len, parts)) + late)
                parts += [np.float32(level) * sound, _pause(typical, generator)]
                labels.append(items[place].label)
            stream = streams.prototype()
            rows = np.concatenate([stream.push_audio(np.concatenate(parts), RATE), stream.flush()])
            targets = np.zeros((len(rows), classes), np.float32)
            stops = [*starts[1:], sum(map(len, parts))]
            for start, stop, label in zip(starts, stops, labels, strict=True):
                covered = frame_range(start / RATE, stop / RATE, stream.spec.hop)
                targets[covered.start : covered.stop, label] = 1.0
            valid = targets.sum(axis=1) > 0  # not a last row that reaches beyond the sound
            recordings.append(Recording(f"clips in a row {begin // CLIPS}", rows, classes, None, targets, valid))
    return tuple(recordings)


def _sound(item: Item) -> Samples | None:
    """A clip; None where it cannot be read to its end, of which its own features have told already."""
    if item.media is None:
        return None
    try:
        return read_sound(Path(item.media), RATE)
    except InputError:
        return None


def _pause(typical: float, generator: np.random.Generator) -> NDArray[np.float32]:
    """Silence, or an open line; nothing where the next clip follows at once. typical: samples of a clip."""
    if generator.random() >= PAUSES:
        return np.zeros(0, np.float32)
    samples = generator.standard_normal(round(generator.uniform(*LENGTHS) * typical))
    level = 0.0 if generator.random() < SILENCE else 10 ** generator.uniform(*NOISE)
    return (samples * level).astype(np.float32)
