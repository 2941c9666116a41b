"""Clips in a row, as a stream plays them: one after the other, some with a pause, and what is heard of it.

Extractors look back. In a pause they still hear the clip before it, and at the next clip's beginning both; no clip by
itself sounds like that, and a model that knows clips alone names others there. Nor does anybody know a word by its
first sound: what is said of a row is asked for late, when most of the word has been heard; of a longer clip, sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.item import Item
from pipelines.datasets.mixing.sound_files import Samples, read_sound
from pipelines.datasets.rows.feature_cache import OnItem
from pipelines.datasets.rows.frame_targets import frame_range
from pipelines.datasets.rows.kept_rows import kept_rows, media_digest
from pipelines.devices import one_thread
from pipelines.errors import InputError
from pipelines.features.extractor import Rows
from pipelines.features.stream_factory import StreamFactory
from pipelines.training.recipes.data_facts import SHORT
from pipelines.training.samples.recordings import Recording

VERSION = 1  # of how they are played: another number plays them anew
RATE = 24_000  # Hz
CLIPS = 3  # in a recording
SILENCE = 0.5  # share of pauses that are digital silence
NOISE = -5.0, -3.0  # of the others: powers of ten, of their deviation
LEVELS = -3.0, 3.0  # decibels by which a clip is louder
SEED = 20_261_118


@dataclass(frozen=True)
class Manner:
    """How clips follow each other."""

    pauses: float  # share of clips that are followed by one
    lengths: tuple[float, float]  # of a pause, in clips of median length
    late: float  # of a clip, of median length at most: until so much of it has been heard, the label is the one before


WORDS = Manner(pauses=0.7, lengths=(0.1, 2.0), late=0.75)
LONGER_CLIPS = Manner(pauses=0.2, lengths=(0.05, 0.6), late=0.4)


@dataclass(frozen=True)
class _Played:
    """A recording that is to be played: its clips, and where their labels begin."""

    clips: list[int]  # places among the items
    levels: list[float]  # decibels
    pauses: list[Samples]
    starts: list[float]  # seconds from which each label counts
    end: float  # seconds


def clips_in_a_row(
    items: Sequence[Item],
    streams: StreamFactory,
    classes: int,
    cache: Path | None = None,
    on_item: OnItem | None = None,
) -> tuple[Recording, ...]:
    """Recordings in which every clip that can be read is heard once, in an order that chance decides.

    A pause is labelled as the clip before it: what is still heard of it is no other. Labels begin late (`Manner`).
    cache: a folder in which the rows are kept; None: nowhere.
    """
    played = _plan(items)
    if not played:
        return ()
    if cache is None:
        rows = _rows(items, played, streams, on_item)
    else:
        width = streams.prototype().spec.width
        rows = kept_rows(
            cache / f"in-a-row-{media_digest(str(VERSION), items)}.npy",
            lambda shape: len(shape) == 2 and shape[1] == 1 + width,
            lambda: _rows(items, played, streams, on_item),
        )
    hop = streams.prototype().spec.hop
    parts = np.split(rows[:, 1:], np.searchsorted(rows[:, 0], np.arange(1, len(played))))
    recordings = []
    for number, (one, mine) in enumerate(zip(played, parts, strict=True)):
        targets = np.zeros((len(mine), classes), np.float32)
        for place, start, stop in zip(one.clips, one.starts, [*one.starts[1:], one.end], strict=True):
            covered = frame_range(start, stop, hop)
            targets[covered.start : covered.stop, items[place].label] = 1.0
        valid = targets.sum(axis=1) > 0  # not a last row that reaches beyond the sound
        recordings.append(Recording(f"clips in a row {number}", mine, classes, None, targets, valid))
    return tuple(recordings)


def _plan(items: Sequence[Item]) -> list[_Played]:
    """What is played when. Clips are read once more to be played: all of them may not fit into memory."""
    lengths = {place: len(sound) for place, item in enumerate(items) if (sound := _sound(item)) is not None}
    typical = float(np.median(list(lengths.values()))) if lengths else 0.0
    manner = WORDS if typical < SHORT * RATE else LONGER_CLIPS
    generator = np.random.default_rng(SEED)
    order = generator.permutation(list(lengths)).tolist()
    played = []
    for begin in range(0, len(order), CLIPS):
        one = _Played(order[begin : begin + CLIPS], [], [], [], 0.0)
        end = 0
        for place in one.clips:
            one.levels.append(generator.uniform(*LEVELS))
            late = manner.late * min(lengths[place], typical) if one.starts else 0.0
            one.starts.append((end + late) / RATE)
            one.pauses.append(_pause(typical, manner, generator))
            end += lengths[place] + len(one.pauses[-1])
        played.append(_Played(one.clips, one.levels, one.pauses, one.starts, end / RATE))
    return played


def _rows(items: Sequence[Item], played: Sequence[_Played], streams: StreamFactory, on_item: OnItem | None) -> Rows:
    """(rows, 1 + width) of all of them: which one it is, and what is heard."""
    parts = [np.zeros((0, 1 + streams.prototype().spec.width), np.float32)]
    with one_thread():
        for number, one in enumerate(played):
            if on_item is not None:
                on_item(number, len(played), f"in a row: {items[one.clips[0]].name}")
            sound = []
            for place, level, pause in zip(one.clips, one.levels, one.pauses, strict=True):
                sound += [np.float32(10 ** (level / 20)) * read_sound(Path(str(items[place].media)), RATE), pause]
            stream = streams.prototype()
            rows = np.concatenate([stream.push_audio(np.concatenate(sound), RATE), stream.flush()])
            parts.append(np.concatenate([np.full((len(rows), 1), number, np.float32), rows], axis=1))
    if on_item is not None:
        on_item(len(played), len(played), "")
    return np.concatenate(parts)


def _sound(item: Item) -> Samples | None:
    """A clip; None where it cannot be read to its end, of which its own features have told already."""
    if item.media is None:
        return None
    try:
        return read_sound(Path(item.media), RATE)
    except InputError:
        return None


def _pause(typical: float, manner: Manner, generator: np.random.Generator) -> NDArray[np.float32]:
    """Silence, or an open line; nothing where the next clip follows at once. typical: samples of a clip."""
    if generator.random() >= manner.pauses:
        return np.zeros(0, np.float32)
    samples = generator.standard_normal(round(generator.uniform(*manner.lengths) * typical))
    level = 0.0 if generator.random() < SILENCE else 10 ** generator.uniform(*NOISE)
    return (samples * level).astype(np.float32)
