"""Rows that were extracted before: our feature files, bare .npy files, entries of OadTR's pickles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pipelines.errors import ConfigurationError, InputError
from pipelines.features.files.feature_files import read_features
from pipelines.features.files.feature_rows import FeatureRows
from pipelines.features.files.npy_reader import read_npy
from pipelines.features.spec import FeatureSpec, spec_difference
from pipelines.streaming.sources.source import StreamSource, feature_paths

PARTS = ("rgb", "flow", "audio")  # the order in which OadTR joins them
MOST_NAMES = 5  # videos of a pickle that an error names


@dataclass(frozen=True)
class SourceRows:
    """The rows of a source, and what they are."""

    rows: FeatureRows
    spec: FeatureSpec | None  # None: the files do not say what they hold


def open_source_rows(source: StreamSource, width: int, wanted: FeatureSpec | None) -> SourceRows:
    """The rows of a source for a model that takes `width` numbers, those of the specification `wanted`."""
    spec = None
    if source.target.lower().endswith((".pickle", ".pkl")):
        parts = _pickled(Path(source.target), source.entry)
    else:
        files = {part: read_features(Path(part)) for part in feature_paths(source.target)}
        parts = {part: file.rows for part, file in files.items()}
        spec = next(iter(files.values())).spec if len(files) == 1 else None
    rows = FeatureRows.joined([*parts.values()], [*parts], source.name)
    if rows.width != width:
        raise ConfigurationError(
            f"{source.name}: the features have {rows.width} numbers per row, but the model takes {width}: give those "
            "that it was trained on"
        )
    if spec is not None and wanted is not None and (difference := spec_difference(spec, wanted)):
        raise ConfigurationError(f"{source.name}: these features {difference}, which is what the model was trained on")
    if len(rows) == 0:
        raise InputError(f"{source.name}: there is no row in it")
    return SourceRows(rows, spec)


def _pickled(path: Path, entry: str | None) -> dict[str, NDArray[Any]]:
    """The parts of a video by their names."""
    from pipelines.datasets.rows.pickle_cache import PickleFile, cached_arrays

    videos = cached_arrays(PickleFile(path))
    if entry is None and len(videos) == 1:
        entry = next(iter(videos))
    if entry is None or entry not in videos:
        names = ", ".join(list(videos)[:MOST_NAMES]) + (", …" if len(videos) > MOST_NAMES else "")
        what = f"has no video '{entry}'" if entry else f"holds {len(videos)} videos: say which"
        raise InputError(f"{path}: {what}, as in {path.name}:{next(iter(videos))} (videos: {names})")
    parts = videos[entry]
    order = [part for part in PARTS if part in parts] + [part for part in parts if part not in PARTS]
    return {part: read_npy(parts[part]) for part in order}
