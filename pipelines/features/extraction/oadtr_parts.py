"""The oadtr layout: the features of all recordings of a folder in one pickle, whichever runs they are from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.errors import InputError
from pipelines.features.files.feature_files import read_features, read_manifest
from pipelines.features.files.layout import OADTR_PARTS, OADTR_PICKLE, modality
from pipelines.features.files.oadtr_pickle import write_oadtr_pickle
from pipelines.file_lock import file_lock


def join_oadtr(out: Path) -> tuple[str, ...]:
    """Put everything in the folder of parts into one pickle, whichever run it is from.

    One run at a time: the last of several that share the work finds the parts of all of them.
    """
    with file_lock(out / f".{OADTR_PICKLE}.lock"):
        return _write_oadtr(out, out / OADTR_PARTS)


def _write_oadtr(out: Path, parts: Path) -> tuple[str, ...]:
    def videos() -> Iterator[tuple[str, dict[str, Any]]]:
        for manifest_path in sorted(parts.rglob("*.json")):
            try:
                spec = read_manifest(manifest_path).spec
            except InputError:
                if manifest_path.exists():
                    raise
                continue  # another run is just writing it again, and will put it in
            rows = read_features(manifest_path.with_suffix(".npy")).rows
            columns, start = {}, 0
            for part in spec.parts:
                columns[modality(part)] = rows[:, start : start + part.width]
                start += part.width
            yield manifest_path.relative_to(parts).with_suffix("").as_posix(), columns

    if write_oadtr_pickle(out / OADTR_PICKLE, videos()) == 0:
        (out / OADTR_PICKLE).unlink()
        return ()
    return (OADTR_PICKLE,)
