"""Streams mixed from clips: pauses, noise and other speech between them, labels to the sample, made once and cached.

A model that spots words in a stream has to be trained on streams. Few recordings are enough: each is used several
times, in another order, at another pitch, in another room.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.dataset import SPLITS
from pipelines.datasets.item import Item, Segment
from pipelines.datasets.mixing.prepared_folder import INDEX, prepared_folder
from pipelines.datasets.mixing.sound_files import read_sound
from pipelines.datasets.mixing.stream_mixer import (
    PAUSE,
    Events,
    Recording,
    Samples,
    crossed,
    disguised,
    levelled,
    mix_file,
    mix_stream,
    plan_streams,
    shuffled,
)
from pipelines.errors import UsageError
from pipelines.files import write_text

VERSION = 7  # of the mixing: another number makes other streams
HIGHEST_PITCH = 0.4  # beyond, words are not those of people any more
EXCERPT = (0.3, 2.0)  # seconds of other sound between two words
EXCERPT_CHANCE = 0.5  # of other sound between two words, where there is any
NEAR_MISS_CHANCE = 0.25  # of a near miss after a word
CROSSED_CHANCE = 0.5  # of a near miss that is made of two words, where two that differ were drawn
FILE_WORDS = 3  # in one of the files
FLUENT = (4.0, 12.0)  # seconds of other sound in one piece, in streams without a word
FLUENT_SHARE = 2.0  # of the time with words: how much of such streams there is, where there is other sound


@dataclass(frozen=True)
class MixingOptions:
    """How streams are put together. All but the first three are for training streams: others never change with them."""

    seconds: float = 60.0  # of a stream, about
    seed: int = 0
    rate: int = 8000  # Hz
    passes: int = 1  # how often each recording is used
    pitch: float = 0.0  # largest relative change of a voice's pitch, formants and speed
    one_voice: bool = False  # nobody else in a stream
    rooms: float = 0.0  # share of streams that are heard through another room and microphone
    as_files: float = 0.0  # share of the recordings that are heard once more as files are: at once, and without noise
    near_misses: bool = False  # with near misses, which are no words, and with streams of other sound alone

    def __post_init__(self) -> None:
        if not 0 <= self.pitch <= HIGHEST_PITCH:
            raise UsageError(f"--pitch is the largest change of voices, from 0 to {HIGHEST_PITCH}, not {self.pitch}")
        if not 0 <= self.rooms <= 1:
            raise UsageError(f"--rooms is a share of the training streams, from 0 to 1, not {self.rooms}")
        if not 0 <= self.as_files <= 1:
            raise UsageError(f"--as-files is a share of the training recordings, from 0 to 1, not {self.as_files}")

    def without_changes(self) -> MixingOptions:
        """For streams that nobody trains on."""
        return MixingOptions(self.seconds, self.seed, self.rate)


@dataclass(frozen=True)
class Take:
    """A file with a word, or with other sound."""

    path: Path
    label: int | None  # None: other sound of any length, of which streams hold pieces
    voice: str = ""


def mixed_streams(
    name: str, split: str, takes: Sequence[Take], root: Path, options: MixingOptions, group: str | None = None
) -> list[Item]:
    """The streams of some recordings of a split, mixed now unless they are cached. name: of the dataset.

    group: whose recordings these are, where they are one's alone.
    """
    if split != "train":
        options = options.without_changes()
    files = [[str(take.path), take.path.stat().st_size, take.label] for take in takes]
    identity = json.dumps([VERSION, split, asdict(options), str(root.resolve()), files])
    stem = "-".join([name, *([group] if group else []), *([] if group and split != "train" else [split])])
    paths = [take.path for take in takes]
    folder = prepared_folder(stem, identity, lambda place: _mix_all(place, split, takes, options), paths)
    made_of = tuple(path.stem for path in paths)
    index: list[dict[str, Any]] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    return [
        Item(
            name=f"{group or split}-{entry['name']}",
            split=split,
            media=folder / f"{entry['name']}.wav",
            segments=tuple(Segment(start, end, int(label)) for start, end, label in entry["events"]),
            duration=float(entry["duration"]),
            group=None if split == "train" else group,
            made_of=made_of,
        )
        for entry in index
    ]


def _mix_all(folder: Path, split: str, takes: Sequence[Take], options: MixingOptions) -> None:
    import soundfile

    # One generator per split, so that validation streams do not change with the training options.
    generator = np.random.default_rng([options.seed, SPLITS.index(split)])
    index = []
    for number, (samples, events) in enumerate(_mixed(takes, options, generator)):
        name = f"{number:04d}"
        soundfile.write(folder / f"{name}.wav", _as_integers(samples), options.rate, subtype="PCM_16")
        index.append({"name": name, "duration": len(samples) / options.rate, "events": events})
    write_text(folder / INDEX, json.dumps(index))


def _mixed(
    takes: Sequence[Take], options: MixingOptions, generator: np.random.Generator
) -> Iterator[tuple[Samples, Events]]:
    """Streams (n,), and the events in them."""
    words = [_read(take, options.rate) for take in takes if take.label is not None]
    other = [_read(take, options.rate) for take in takes if take.label is None]
    streams = plan_streams(words, options.seconds, options.passes, generator)
    if other and options.near_misses:
        streams += [_fluent(other, options.seconds, generator) for _ in range(round(FLUENT_SHARE * len(streams)))]
    for members in streams:
        voices = _changed_voices(members, options, generator)
        if members[0].label is not None and (other or options.near_misses):
            voices = _with_other_sound(voices, other, options.near_misses, generator)
        room = options.rooms > 0 and float(generator.random()) < options.rooms
        yield mix_stream(voices, generator, room)
    for members in _files(words, options.as_files, generator):
        yield mix_file(members, generator)


def _read(take: Take, rate: int) -> Recording:
    return Recording(take.label, levelled(read_sound(take.path, rate)), rate, take.voice)


def _changed_voices(
    recordings: list[Recording], options: MixingOptions, generator: np.random.Generator
) -> list[Recording]:
    """A voice is changed in the same way in all of a stream, as if another person were speaking."""
    if not options.pitch:
        return recordings
    factors = {recording.voice: 0.0 for recording in recordings}
    for voice in sorted(factors):
        factors[voice] = float(generator.uniform(1 - options.pitch, 1 + options.pitch))
    return [recording.at_pitch(factors[recording.voice]) for recording in recordings]


def _files(words: list[Recording], share: float, generator: np.random.Generator) -> list[list[Recording]]:
    """Which words are heard together without noise."""
    chosen = [words[place] for place in generator.permutation(len(words))[: round(share * len(words))]]
    return [chosen[begin : begin + FILE_WORDS] for begin in range(0, len(chosen), FILE_WORDS)]


def _with_other_sound(
    words: list[Recording], other: list[Recording], near_misses: bool, generator: np.random.Generator
) -> list[Recording]:
    """Words with pieces of other sound and, if wanted, words that are none between them."""
    mixed = []
    for word in words:
        mixed.append(word)
        if other and generator.random() < EXCERPT_CHANCE:
            mixed.append(_excerpt(other, EXCERPT, generator))
        if near_misses and generator.random() < NEAR_MISS_CHANCE:
            mixed.append(_near_miss(word, words, generator))
    return mixed


def _near_miss(word: Recording, words: list[Recording], generator: np.random.Generator) -> Recording:
    mate = words[int(generator.integers(len(words)))]
    if mate.label != word.label and generator.random() < CROSSED_CHANCE:
        return crossed(word, mate)
    return shuffled(word, generator)


def _fluent(other: list[Recording], seconds: float, generator: np.random.Generator) -> list[Recording]:
    """Long pieces of other sound, for a stream in which there is nothing to spot: most of what is said is no word."""
    pieces: list[Recording] = []
    while sum(piece.seconds + sum(PAUSE) / 2 for piece in pieces) < seconds:
        piece = disguised(_excerpt(other, FLUENT, generator), generator)
        pieces.append(replace(piece, samples=levelled(piece.samples)))
    return pieces


def _excerpt(other: list[Recording], length: tuple[float, float], generator: np.random.Generator) -> Recording:
    """A piece of one of the recordings, of long ones more often, so many seconds long if it can be."""
    lengths = np.array([recording.seconds for recording in other])
    source = other[int(generator.choice(len(other), p=lengths / lengths.sum()))]
    seconds = min(source.seconds, float(generator.uniform(*length)))
    begin = float(generator.uniform(0, source.seconds - seconds))
    piece = source.between(begin, begin + seconds)
    return replace(piece, samples=levelled(piece.samples))


def _as_integers(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """(n,) floats in [-1, 1] as 16-bit numbers."""
    return np.asarray(np.clip(np.rint(samples * 32767), -32768, 32767), dtype=np.int16)
