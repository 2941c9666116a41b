"""Foreign recordings: what a model of clips should say "none of these" to, and one of streams "background"."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.item import Item
from pipelines.datasets.mixing.foreign_sound import (
    ALWAYS_FOREIGN,
    LIKE_WEATHER,
    WHITE_NOISE,
    MadeSound,
    foreign_sounds,
    made_sound,
)
from pipelines.datasets.rows.feature_cache import OnItem, cache_folder, cached_features
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.datasets.source import FeatureOptions
from pipelines.devices import one_thread
from pipelines.errors import InputError
from pipelines.features.extraction.sources import find_recordings
from pipelines.features.files.npy_reader import read_npy
from pipelines.features.joint import FeatureStream
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.files import atomic_write
from pipelines.training.samples.recordings import Recording

Rows = NDArray[np.float32]
MADE = "made"  # in place of a folder: made sounds alone
KEPT_OUT = 5  # of the recordings in a folder, one in so many is not trained on: the rule for "none" is fitted on it
SECONDS = 5.0  # of a made sound


@dataclass(frozen=True, eq=False)
class ForeignSound:
    """Recordings without a class."""

    train: tuple[Recording, ...] = ()
    fit: tuple[Recording, ...] = ()
    always: tuple[Recording, ...] = ()  # those of them that no model should have a name for
    weather: tuple[Recording, ...] = ()  # made sounds that a class of clips may well sound like


def open_foreign(folder: Path, options: FeatureOptions, classes: int, on_item: OnItem | None = None) -> ForeignSound:
    """The recordings in a folder, with features as `options` say."""
    items = tuple(
        Item(recording.name, "train", media=recording.path) for recording in find_recordings([str(folder)]).recordings
    )
    foreign = cached_features(items, options, on_item).items
    recordings = [_without_class(item.name, open_rows(item)[:], classes) for item in foreign]
    return ForeignSound(
        train=tuple(recording for place, recording in enumerate(recordings) if place % KEPT_OUT),
        fit=tuple(recordings[::KEPT_OUT]),
    )


def made_foreign(
    options: FeatureOptions, spec: FeatureSpec, classes: int, on_item: OnItem | None = None
) -> ForeignSound:
    """Made sounds through the extractors of a recipe; nothing where these take pictures."""
    if any(part.kind != "audio" for part in spec.parts):
        return ForeignSound()
    sounds = list(foreign_sounds(SECONDS))
    recordings, always, weather = [], [], []
    for sound, rows in zip(sounds, _made_rows(sounds, options, spec, on_item), strict=True):
        recordings.append(_without_class(sound.kind, rows, classes))
        if sound.kind in ALWAYS_FOREIGN:
            always.append(recordings[-1])
        if sound.kind in LIKE_WEATHER:
            weather.append(recordings[-1])
    train = tuple(recording for recording in recordings if recording.name not in LIKE_WEATHER)
    return ForeignSound(train=train, fit=train, always=tuple(always), weather=tuple(weather))


def as_background(recordings: Iterable[Recording], background: int) -> ForeignSound:
    """For streams, which have a class for what is none of the others: all are trained on as that class."""
    shown = []
    for recording in recordings:
        targets = np.zeros((len(recording), recording.classes), np.float32)
        targets[:, background] = 1.0
        shown.append(replace(recording, targets=targets))
    return ForeignSound(train=tuple(shown))


def white_noise(numbers: Sequence[int], options: FeatureOptions, spec: FeatureSpec, classes: int) -> list[Recording]:
    """White noise of these numbers, of which training hears the first ones."""
    sounds = [made_sound(WHITE_NOISE, number, SECONDS) for number in numbers]
    return [_without_class(WHITE_NOISE, rows, classes) for rows in _made_rows(sounds, options, spec, None)]


def _made_rows(sounds: Sequence[MadeSound], options: FeatureOptions, spec: FeatureSpec, on_item: OnItem | None) -> Rows:
    """The rows of made sounds (sounds, rows, width). They are kept: with a large network they take ten seconds."""
    digest = hashlib.sha256(b"".join(sound.samples.tobytes() for sound in sounds)).hexdigest()[:16]
    path = cache_folder(options, spec) / f"made-{digest}.npy"
    kept = _kept_rows(path)
    if kept is not None and kept.ndim == 3 and (len(kept), kept.shape[2]) == (len(sounds), spec.width):
        return kept
    assert options.request is not None
    factory = StreamFactory(options.request, "cpu")
    heard = []
    with one_thread():  # short sounds gain little by more, and lose much by them where others compute, too
        for count, sound in enumerate(sounds):
            if on_item is not None:
                on_item(count, len(sounds), f"foreign: {sound.kind}")
            heard.append(_heard(factory.prototype(), sound))
    if on_item is not None:
        on_item(len(sounds), len(sounds), "")
    rows = np.stack(heard)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.save(file, rows)
    return rows


def _heard(stream: FeatureStream, sound: MadeSound) -> Rows:
    """(rows, width)."""
    return np.concatenate([stream.push_audio(sound.samples, sound.rate), stream.flush()])


def _kept_rows(path: Path) -> Rows | None:
    try:
        rows = read_npy(path)
    except InputError:  # not there yet, or damaged
        return None
    return np.array(rows) if rows.dtype == np.float32 else None


def _without_class(name: str, rows: np.ndarray, classes: int) -> Recording:
    return Recording(name, rows, classes, targets=np.zeros((len(rows), classes), np.float32))
