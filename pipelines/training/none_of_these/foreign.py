"""Foreign recordings: what a model of clips should say "none of these" to, and one of streams "background"."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.item import Item
from pipelines.datasets.mixing import foreign_video
from pipelines.datasets.mixing.foreign_sound import (
    ALWAYS_FOREIGN,
    LIKE_WEATHER,
    WHITE_NOISE,
    MadeSound,
    foreign_sounds,
    made_sound,
)
from pipelines.datasets.mixing.foreign_video import MadeVideo, foreign_videos
from pipelines.datasets.mixing.spoken_sounds import spoken_sounds
from pipelines.datasets.rows.feature_cache import OnItem, cache_folder, cached_features
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.datasets.rows.kept_rows import kept_rows
from pipelines.datasets.source import FeatureOptions
from pipelines.devices import one_thread
from pipelines.features.extraction.sources import find_recordings
from pipelines.features.joint import FeatureStream
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.training.samples.recordings import Recording

Rows = NDArray[np.float32]
MADE = "made"  # in place of a folder: made sounds alone
KEPT_OUT = 5  # of the recordings in a folder, one in so many is not trained on: the rule for "none" is fitted on it
SECONDS = 5.0  # of a made sound
VIDEO_SECONDS = 3.0  # of a made video: most stand still, and large networks take their time for every row


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
    options: FeatureOptions, spec: FeatureSpec, classes: int, on_item: OnItem | None = None, speech: bool = False
) -> ForeignSound:
    """Made sounds and videos through the extractors of a recipe; where these take both, each sound with a video.

    speech: whether speech is foreign to the model, too.
    """
    made = _made(spec, speech)
    train: list[Recording] = []
    always: list[Recording] = []
    weather: list[Recording] = []
    for each, rows in zip(made, _made_rows(made, options, spec, on_item), strict=True):
        recording = _without_class(each.kind, rows, classes)
        (weather if each.like_weather else train).append(recording)
        if each.always:
            always.append(recording)
    return ForeignSound(train=tuple(train), fit=tuple(train), always=tuple(always), weather=tuple(weather))


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
    sounds = [Foreign(made_sound(WHITE_NOISE, number, SECONDS)) for number in numbers]
    return [_without_class(WHITE_NOISE, rows, classes) for rows in _made_rows(sounds, options, spec, None)]


@dataclass(frozen=True)
class Foreign:
    """What is heard and seen of a made recording."""

    sound: MadeSound | None = None
    video: MadeVideo | None = None

    @property
    def kind(self) -> str:
        return " with ".join(part.kind for part in (self.sound, self.video) if part is not None)

    @property
    def always(self) -> bool:
        """Whether no model should have a name for any part of it."""
        heard = self.sound is None or self.sound.kind in ALWAYS_FOREIGN
        return heard and (self.video is None or self.video.kind in foreign_video.ALWAYS_FOREIGN)

    @property
    def like_weather(self) -> bool:
        """Whether a class may well sound like it."""
        return self.sound is not None and self.sound.kind in LIKE_WEATHER

    @property
    def digest(self) -> bytes:
        """Of what the rows depend on."""
        sound = b"" if self.sound is None else self.sound.samples.tobytes()
        if self.video is None:
            return sound
        return sound + self.video.kind.encode() + b"".join(self.video.at(share).tobytes() for share in (0.0, 0.5))

    def rows(self, stream: FeatureStream) -> Rows:
        """(rows, width)."""
        parts = []
        if self.sound is not None:
            parts.append(stream.push_audio(self.sound.samples, self.sound.rate))
        if self.video is not None:
            parts += [stream.push_frame(frame) for frame in self.video.frames()]
        return np.concatenate([*parts, stream.flush()])


def _made(spec: FeatureSpec, speech: bool) -> list[Foreign]:
    kinds = {part.kind for part in spec.parts}
    seconds = VIDEO_SECONDS if "video" in kinds else SECONDS
    sounds = chain(foreign_sounds(seconds), spoken_sounds(seconds) if speech else ())
    if "video" not in kinds:
        return [Foreign(sound) for sound in sounds]
    videos = list(foreign_videos(VIDEO_SECONDS))
    if "audio" not in kinds:
        return [Foreign(video=video) for video in videos]
    return [Foreign(sound, video) for sound, video in zip(sounds, cycle(videos), strict=False)]


def _made_rows(made: Sequence[Foreign], options: FeatureOptions, spec: FeatureSpec, on_item: OnItem | None) -> Rows:
    """The rows of made recordings (recordings, rows, width). They are kept: with a large network they take a while."""
    digest = hashlib.sha256(b"".join(each.digest for each in made)).hexdigest()[:16]
    path = cache_folder(options, spec) / f"made-{digest}.npy"
    return kept_rows(
        path,
        lambda shape: len(shape) == 3 and (shape[0], shape[2]) == (len(made), spec.width),
        lambda: _heard_and_seen(made, options, on_item),
    )


def _heard_and_seen(made: Sequence[Foreign], options: FeatureOptions, on_item: OnItem | None) -> Rows:
    assert options.request is not None
    factory = StreamFactory(options.request, "cpu")
    rows = []
    with one_thread():  # short ones gain little by more, and lose much by them where others compute, too
        for count, each in enumerate(made):
            if on_item is not None:
                on_item(count, len(made), f"foreign: {each.kind}")
            rows.append(each.rows(factory.prototype()))
    if on_item is not None:
        on_item(len(made), len(made), "")
    return np.stack(rows)


def _without_class(name: str, rows: np.ndarray, classes: int) -> Recording:
    return Recording(name, rows, classes, targets=np.zeros((len(rows), classes), np.float32))
