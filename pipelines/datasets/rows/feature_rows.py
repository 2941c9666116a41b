"""The feature files of a dataset's item."""

from __future__ import annotations

from pipelines.datasets.dataset import TRIM
from pipelines.datasets.item import Item
from pipelines.errors import InputError
from pipelines.features.files.feature_rows import FeatureRows, open_array


def open_rows(item: Item, trim: int = TRIM) -> FeatureRows:
    """The features of an item, memory-mapped; parts whose lengths differ by at most `trim` are trimmed."""
    if not item.features:
        what = f"only media ({item.media})" if item.media is not None else "neither features nor media"
        raise InputError(f"{item.name}: there is {what}; extract features first, or give their folder")
    parts = [open_array(path) for path in item.features]
    return FeatureRows.joined(parts, [str(path) for path in item.features], item.name, trim)
