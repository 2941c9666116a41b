"""Features of a dataset's media, extracted once and kept.

The files of a recording stand in a folder that is named after the specification of the features and the place of the
media, so other settings or other recordings of the same name never meet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from pipelines.datasets.item import Item
from pipelines.errors import InputError
from pipelines.features.recording_extraction import Target, extract_recording
from pipelines.features.sources import Recording
from pipelines.features.spec import Align, FeatureSpec
from pipelines.features.stream_factory import StreamFactory, StreamOptions
from pipelines.features.weight_store import cache_dir
from pipelines.training.recipe import FeatureOptions

LAYOUT = "npy"
OnItem = Callable[[int, int, str], None]  # recordings done, recordings in all, the one that comes next


@dataclass(frozen=True)
class CachedFeatures:
    """Items with their feature files."""

    items: tuple[Item, ...]
    spec: FeatureSpec
    problems: tuple[str, ...]


def stream_options(options: FeatureOptions) -> StreamOptions:
    """The extractors of a recipe."""
    return StreamOptions(
        features=options.names or "",
        hop=options.hop,
        align=cast(Align, options.align),
        options=dict(options.options),
        weights=tuple(f"{name}={file}" for name, file in options.weights.items()),
    )


def cached_features(
    items: Sequence[Item],
    options: FeatureOptions,
    on_item: OnItem | None = None,
    mine: Sequence[int] | None = None,
    wait: Callable[[], None] | None = None,
) -> CachedFeatures:
    """The items with features of their media; what is not in the cache is extracted now.

    mine: the indices that this process extracts, of several that share the work; wait: until all have done theirs.
    Items whose media cannot be used are left out and reported.
    """
    streams = StreamFactory(stream_options(options))
    spec = streams.prototype().spec
    folder = (Path(options.cache) if options.cache else cache_dir() / "features") / _digest(spec)
    if wait is not None:
        _extract(items, mine or [], folder, streams, None)
        wait()
    return _extract(items, range(len(items)), folder, streams, on_item)


def _extract(
    items: Sequence[Item], indices: Sequence[int], folder: Path, streams: StreamFactory, on_item: OnItem | None
) -> CachedFeatures:
    found, problems = [], []
    spec = streams.prototype().spec
    for count, index in enumerate(indices):
        item = items[index]
        if on_item is not None:
            on_item(count, len(indices), item.name)
        if item.media is None:
            problems.append(f"{item.name}: there is no media to extract features from, left out")
            continue
        place = folder / hashlib.sha256(str(item.media.resolve().parent).encode()).hexdigest()[:16]
        target = Target(place, LAYOUT, "float32", force=False)
        outcome = extract_recording(Recording(item.media, item.media.stem), target, streams, wait=True)
        if outcome.status == "conflict":
            # The same place and name, another file: the old one is of no use to anybody.
            target = replace(target, force=True)
            outcome = extract_recording(Recording(item.media, item.media.stem), target, streams, wait=True)
        if outcome.status in ("done", "skipped", "damaged"):
            found.append(replace(item, features=(place / f"{item.media.stem}.npy",)))
        if outcome.message:
            problems.append(outcome.message)
    if on_item is not None:
        on_item(len(indices), len(indices), "")
    if indices and not found:
        raise InputError(f"no features could be extracted: {problems[0]}")
    return CachedFeatures(tuple(found), spec, tuple(problems))


def _digest(spec: FeatureSpec) -> str:
    text = json.dumps(spec.to_dict(), sort_keys=True)
    name = "".join(letter if letter.isalnum() else "-" for letter in spec.name)
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
