"""Foreign recordings: what a model of clips should say "none of these" to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipelines.datasets.item import Item
from pipelines.datasets.mixing.foreign_sound import ALWAYS_FOREIGN, LIKE_WEATHER, RATE, foreign_sounds
from pipelines.datasets.rows.feature_cache import OnItem, cached_features
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.datasets.source import FeatureOptions
from pipelines.features.extraction.sources import find_recordings
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.training.samples.recordings import Recording

MADE = "made"  # in place of a folder: made sounds alone
KEPT_OUT = 5  # of the recordings in a folder, one in so many is not trained on: the rule for "none" is fitted on it
SECONDS = 5.0  # of a made sound


@dataclass(frozen=True, eq=False)
class ForeignSound:
    """Recordings without a class."""

    train: tuple[Recording, ...] = ()
    fit: tuple[Recording, ...] = ()
    always: tuple[Recording, ...] = ()  # those of them that no model should have a name for


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


def made_foreign(options: FeatureOptions, spec: FeatureSpec, classes: int) -> ForeignSound:
    """Made sounds through the extractors of a recipe; nothing where these take pictures."""
    if any(part.kind != "audio" for part in spec.parts):
        return ForeignSound()
    assert options.request is not None
    factory = StreamFactory(options.request, "cpu")
    recordings, always = [], []
    for kind, samples in foreign_sounds(SECONDS):
        stream = factory.prototype()
        rows = np.concatenate([stream.push_audio(samples, RATE), stream.flush()])
        recordings.append(_without_class(kind, rows, classes))
        if kind in ALWAYS_FOREIGN:
            always.append(recordings[-1])
    train = tuple(recording for recording in recordings if recording.name not in LIKE_WEATHER)
    return ForeignSound(train=train, fit=train, always=tuple(always))


def _without_class(name: str, rows: np.ndarray, classes: int) -> Recording:
    return Recording(name, rows, classes, targets=np.zeros((len(rows), classes), np.float32))
