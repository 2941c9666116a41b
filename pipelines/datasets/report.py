"""What was found in a dataset: the contents of `cotrans data inspect`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.datasets.dataset import Dataset, Kind
from pipelines.datasets.item import Item
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.datasets.rows.frame_targets import frame_targets
from pipelines.errors import InputError
from pipelines.features.files.npy_reader import read_npy
from pipelines.wording import listed

HOP = 0.25  # seconds between counted frames, where neither features nor options fix it

BLOCK = 4096  # feature rows that are looked at together


@dataclass(frozen=True)
class SplitReport:
    """One split."""

    items: int
    hours: float | None  # None where no duration is known
    frames: int | None  # rows of features or labels; None for clips without features
    per_class: tuple[int, ...]  # clips of each class, or frames
    ambiguous: int = 0  # frames that loss and score leave out


@dataclass(frozen=True)
class DatasetReport:
    """Everything that `inspect` prints."""

    name: str
    kind: Kind
    root: str
    class_names: tuple[str, ...]
    splits: dict[str, SplitReport]
    features: str | None  # "3072 wide (2048 + 1024), float32", or None when there is only media
    hop: float | None  # seconds between the frames that were counted
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "dataset": self.name,
            "kind": self.kind,
            "root": self.root,
            "classes": list(self.class_names),
            "features": self.features,
            "hop": self.hop,
            "splits": {
                name: {
                    "items": split.items,
                    "hours": None if split.hours is None else round(split.hours, 4),
                    "frames": split.frames,
                    "ambiguous": split.ambiguous,
                    "per_class": dict(zip(self.class_names, split.per_class, strict=True)),
                }
                for name, split in self.splits.items()
            },
            "problems": list(self.problems),
        }


def describe(
    dataset: Dataset, *, decode: bool = False, progress: Callable[[int, int], None] | None = None
) -> DatasetReport:
    """Look at every item: feature headers, label lengths and, with `decode`, every row and second of media.

    What cannot be used becomes a problem; `progress` is called with (items done, items).
    """
    problems = list(dataset.problems)
    widths: dict[tuple[int, ...], list[str]] = {}
    hop = dataset.hop or (HOP if any(item.segments is not None for item in dataset.items) else None)
    counts: dict[str, list[_Count]] = {split: [] for split in dataset.splits}
    for number, item in enumerate(dataset.items):
        try:
            counts[item.split].append(_count(dataset, item, hop, widths))
            if decode:
                _decode(item, dataset.trim)
        except InputError as error:
            problems.append(str(error))
        if progress is not None:
            progress(number + 1, len(dataset.items))
    if len(widths) > 1:
        described = "; ".join(f"{_width(key)}: {listed(names, most=2)}" for key, names in widths.items())
        problems.append(f"features of different widths cannot be trained on together ({described})")
    return DatasetReport(
        dataset.name,
        dataset.kind,
        str(dataset.root),
        dataset.class_names,
        {split: _split_report(dataset, counts[split]) for split in dataset.splits},
        _width(next(iter(widths))) if widths else None,
        hop if dataset.kind == "frames" else dataset.hop,
        tuple(problems),
    )


@dataclass(frozen=True)
class _Count:
    seconds: float | None
    frames: int | None
    per_class: tuple[int, ...]
    ambiguous: int = 0


def _count(dataset: Dataset, item: Item, hop: float | None, widths: dict[tuple[int, ...], list[str]]) -> _Count:
    rows: int | None = None
    if item.features:
        features = open_rows(item, dataset.trim)
        rows = len(features)
        widths.setdefault(tuple(part.shape[1] for part in features.parts), []).append(item.name)
    if dataset.kind == "clips":
        seconds = item.duration if item.duration is not None or not (rows and hop) else rows * hop
        return _Count(seconds, rows, tuple(int(item.label == index) for index in range(len(dataset.class_names))))
    if rows is None and item.targets is not None:
        rows = len(read_npy(item.targets))
    if rows is None and item.duration is not None and hop is not None:
        rows = max(1, int(item.duration / hop))
    if rows is None and item.segments is not None and hop is not None:
        # Neither features nor media: the labels alone say how long the recording is at least.
        rows = int(max((segment.end for segment in item.segments), default=0.0) / hop) + 1
    if rows is None:
        raise InputError(
            f"{item.name}: neither features, media nor labels say how long it is: extract its features first"
        )
    targets = frame_targets(dataset, item, rows, hop)
    per_class = tuple(int(number) for number in targets.targets.sum(axis=0))
    seconds = item.duration if item.duration is not None or hop is None else len(targets) * hop
    return _Count(seconds, len(targets), per_class, int((~targets.valid).sum()))


def _split_report(dataset: Dataset, counts: Sequence[_Count]) -> SplitReport:
    seconds = [count.seconds for count in counts if count.seconds is not None]
    frames = [count.frames for count in counts if count.frames is not None]
    classes = range(len(dataset.class_names))
    return SplitReport(
        items=len(counts),
        hours=sum(seconds) / 3600 if seconds else None,
        frames=sum(frames) if frames else None,
        per_class=tuple(sum(count.per_class[index] for count in counts) for index in classes),
        ambiguous=sum(count.ambiguous for count in counts),
    )


def _width(parts: tuple[int, ...]) -> str:
    joined = f" ({' + '.join(map(str, parts))})" if len(parts) > 1 else ""
    return f"{sum(parts)} wide{joined}"


def _decode(item: Item, trim: int) -> None:
    """Read all of an item's features and media; damage is an error."""
    rows = open_rows(item, trim) if item.features else None
    for start in range(0, len(rows) if rows is not None else 0, BLOCK):
        assert rows is not None
        bad = np.flatnonzero(~np.isfinite(rows[start : start + BLOCK]).all(axis=1))
        if len(bad):
            raise InputError(f"{item.name}: NaN or infinity in feature row {start + bad[0]} ({item.features[0]})")
    if item.media is None:
        return
    from pipelines.features.media import decode, probe

    info = probe(item.media)
    with decode(item.media, audio=info.audio is not None, video=info.video is not None) as reader:
        for _ in reader:
            pass
