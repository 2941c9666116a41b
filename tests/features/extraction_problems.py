"""What the tests of extraction share."""

from __future__ import annotations

from pathlib import Path

from pipelines.features.extraction.run import ExtractionOptions, Summary
from pipelines.features.request import FeatureRequest
from tests.features.made_recordings import write_sound

SCALE = ("engine", "address", "piece_seconds")
ROOT = Path(__file__).parents[2]
LOGMEL = ExtractionOptions(FeatureRequest("logmel"))


def options(features: str = "logmel", **changes: object) -> ExtractionOptions:
    """Options by name, whichever of the two classes they belong to."""
    own = {
        key: changes.pop(key)
        for key in ("dtype", "layout", "workers", "force", "device", "shard", *SCALE)
        if key in changes
    }
    return ExtractionOptions(FeatureRequest(features, **changes), **own)  # type: ignore[arg-type]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def statuses(summary: Summary) -> dict[str, str]:
    return {outcome.name: outcome.status for outcome in summary.outcomes}


def write_folder(root: Path) -> Path:
    """Three short recordings, two with the same name."""
    for index, name in enumerate(("a.wav", "b.flac", "deep/a.wav")):
        write_sound(root / "in" / name, 1.5 + index / 2, seed=index)
    return root / "in"
