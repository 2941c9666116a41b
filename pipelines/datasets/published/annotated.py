"""Features or, failing those, videos for datasets whose items are known from their annotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.own.media_check import by_name
from pipelines.datasets.rows.feature_files import attach_features, find_features
from pipelines.features.extraction.sources import VIDEO_SUFFIXES
from pipelines.wording import listed

VIDEO_FOLDERS = ("", "videos", "validation", "test", "val", "train")


def attach_streams(
    dataset: Dataset,
    feature_dir: Path | None,
    *,
    feature_set: str | None = None,
    parts: Sequence[str] | None = None,
    hop: float | None = None,
) -> Dataset:
    """The dataset with features from `feature_dir`, or those in its root, or, failing both, with its videos."""
    folder = feature_dir
    if folder is None:
        names = [item.name for item in dataset.items]
        features = find_features(dataset.root, names, parts=parts, feature_set=feature_set)
        folder = dataset.root if features.files else None
    if folder is not None:
        return attach_features(dataset, folder, feature_set=feature_set, parts=parts, hop=hop)
    paths = [
        path
        for name in VIDEO_FOLDERS
        if (dataset.root / name).is_dir()
        for path in (dataset.root / name).iterdir()
        if path.suffix.lower() in VIDEO_SUFFIXES
    ]
    media = by_name(paths, [item.name for item in dataset.items])
    items = [replace(item, media=media.get(item.name)) for item in dataset.items]
    missing = [item.name for item in items if item.media is None]
    note = f"{len(missing)} items have neither features nor video in {dataset.root}: {listed(missing)}"
    return dataset.with_items(items, *([note] if missing else []))
