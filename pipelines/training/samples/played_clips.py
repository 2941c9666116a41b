"""A few clips one after the other, as a stream plays them, and what extractors hear and see of it.

Extractors look back: for seconds after a clip has begun they hear the one before it, too. No clip by itself sounds like
that, so a rule for "none of these" that knows single clips alone turns it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.datasets.item import Item
from pipelines.datasets.rows.feature_cache import OnItem, cache_folder
from pipelines.datasets.rows.kept_rows import kept_rows, media_digest
from pipelines.datasets.source import FeatureOptions
from pipelines.devices import one_thread
from pipelines.errors import InputError
from pipelines.features.extractor import Rows
from pipelines.features.joint import FeatureStream
from pipelines.features.media import AudioBlock, decode
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.training.samples.recordings import Recording

MOST_CLIPS = 32  # so that a large folder takes no longer than a small one; with more, nothing changes
LONGEST = 8.0  # seconds of a clip that are played: one long clip shall not stand for all of them
RATE = 24_000  # Hz
SEED = 20_261_119


def played_clips(
    items: Sequence[Item], options: FeatureOptions, spec: FeatureSpec, classes: int, on_item: OnItem | None = None
) -> tuple[Recording, ...]:
    """One recording of some of the clips, of all classes alike, in an order that chance decides; kept in the cache.

    Nothing where there are not two clips that can be played.
    """
    chosen = _chosen(items)
    path = cache_folder(options, spec) / f"played-{media_digest(f'{MOST_CLIPS} {LONGEST} {RATE}', chosen)}.npy"
    rows = kept_rows(
        path,
        lambda shape: len(shape) == 2 and shape[1] == spec.width,
        lambda: _played(chosen, options, on_item),
    )
    if not len(rows):
        return ()
    return (Recording("clips in a row", rows, classes, targets=np.zeros((len(rows), classes), np.float32)),)


def _chosen(items: Sequence[Item]) -> list[Item]:
    """One clip of each class, then another one of each, and so on."""
    generator = np.random.default_rng(SEED)
    by_class: dict[int | None, list[Item]] = {}
    for place in generator.permutation(len(items)).tolist():
        if items[place].media is not None:
            by_class.setdefault(items[place].label, []).append(items[place])
    chosen: list[Item] = []
    while by_class and len(chosen) < MOST_CLIPS:
        labels = list(by_class)
        for place in generator.permutation(len(labels)).tolist():
            chosen.append(by_class[labels[place]].pop())
            if not by_class[labels[place]]:
                del by_class[labels[place]]
    return chosen[:MOST_CLIPS]


def _played(items: Sequence[Item], options: FeatureOptions, on_item: OnItem | None) -> Rows:
    """(rows, width): what is heard and seen of some clips; no rows where fewer than two could be played."""
    assert options.request is not None
    stream = StreamFactory(options.request, "cpu").prototype()
    parts: list[Rows] = []
    end, played = 0.0, 0
    with one_thread():  # as with made sounds: more gain little, and others may compute, too
        for count, item in enumerate(items):
            if on_item is not None:
                on_item(count, len(items), f"in a row: {item.name}")
            length = _play(Path(str(item.media)), stream, end, parts)
            end += length
            played += length > 0
        parts.append(stream.flush())
    if on_item is not None:
        on_item(len(items), len(items), "")
    return np.concatenate(parts) if played > 1 else np.zeros((0, stream.spec.width), np.float32)


def _play(path: Path, stream: FeatureStream, begin: float, parts: list[Rows]) -> float:
    """Play one clip from the moment `begin` of a stream on, its rows to `parts`; the seconds that it takes."""
    heard, seen = stream.needs_audio, stream.needs_video
    sound: list[Rows] = []
    length = 0.0
    try:
        rate = RATE if heard else None
        with decode(path, audio=heard, video=seen, audio_rate=rate, duration=LONGEST) as reader:
            for part in reader:
                length = max(length, part.end)
                if isinstance(part, AudioBlock):
                    sound.append(part.samples)  # together, since networks compute many rows at once
                else:
                    parts.append(stream.push_frame(replace(part, time=begin + part.time)))
    except InputError:  # what there is of it was played; its own features have told of it
        pass
    if sound:
        parts.append(stream.push_audio(np.concatenate(sound), RATE))
    return length
