"""Rows that were extracted before: our feature files, bare .npy files, entries of OadTR's pickles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError, InputError
from pipelines.features.files.feature_files import read_features
from pipelines.features.files.npy_reader import read_npy
from pipelines.features.spec import FeatureSpec, spec_difference
from pipelines.streaming.sources.source import StreamSource, feature_paths

PARTS = ("rgb", "flow", "audio")  # the order in which OadTR joins them
MOST_NAMES = 5  # videos of a pickle that an error names


@dataclass(frozen=True)
class FeatureRows:
    """Rows side by side; they stay on the disk until they are asked for."""

    parts: tuple[NDArray[Any], ...]  # each (rows, width of the part)
    spec: FeatureSpec | None  # None: the files do not say what they hold

    @property
    def count(self) -> int:
        return int(self.parts[0].shape[0])

    @property
    def width(self) -> int:
        return sum(int(part.shape[1]) for part in self.parts)

    def row(self, index: int) -> NDArray[np.float32]:
        """(width,)"""
        return np.concatenate([np.asarray(part[index], np.float32) for part in self.parts])


def open_rows(source: StreamSource, width: int, wanted: FeatureSpec | None) -> FeatureRows:
    """The rows of a source for a model that takes `width` numbers, those of the specification `wanted`."""
    if source.target.lower().endswith((".pickle", ".pkl")):
        rows = FeatureRows(_pickled(Path(source.target), source.entry), None)
    else:
        files = [read_features(Path(part)) for part in feature_paths(source.target)]
        rows = FeatureRows(tuple(file.rows for file in files), files[0].spec if len(files) == 1 else None)
    if len({part.shape[0] for part in rows.parts}) > 1:
        counts = " and ".join(str(part.shape[0]) for part in rows.parts)
        raise InputError(f"{source.name}: the parts have {counts} rows; they must have as many as each other")
    if rows.width != width:
        raise ConfigurationError(
            f"{source.name}: the features have {rows.width} numbers per row, but the model takes {width}: give those "
            "that it was trained on"
        )
    if rows.spec is not None and wanted is not None and (difference := spec_difference(rows.spec, wanted)):
        raise ConfigurationError(f"{source.name}: these features {difference}, which is what the model was trained on")
    if rows.count == 0:
        raise InputError(f"{source.name}: there is no row in it")
    return rows


def _pickled(path: Path, entry: str | None) -> tuple[NDArray[Any], ...]:
    from pipelines.datasets.pickle_cache import PickleFile, cached_arrays

    videos = cached_arrays(PickleFile(path))
    if entry is None and len(videos) == 1:
        entry = next(iter(videos))
    if entry is None or entry not in videos:
        names = ", ".join(list(videos)[:MOST_NAMES]) + (", …" if len(videos) > MOST_NAMES else "")
        what = f"has no video '{entry}'" if entry else f"holds {len(videos)} videos: say which"
        raise InputError(f"{path}: {what}, as in {path.name}:{next(iter(videos))} (videos: {names})")
    parts = videos[entry]
    order = [part for part in PARTS if part in parts] + [part for part in parts if part not in PARTS]
    return tuple(read_npy(parts[part]) for part in order)
