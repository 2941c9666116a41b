"""ESC-50 as its authors publish it: `audio/FOLD-CLIP-TAKE-TARGET.wav` and the table `meta/esc50.csv`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.own.media_check import check_media
from pipelines.datasets.own.split_rule import UNDECIDED, SplitRule
from pipelines.datasets.published.table_file import read_table
from pipelines.errors import InputError
from pipelines.wording import listed

TABLE = Path("meta/esc50.csv")
COLUMNS = ("filename", "fold", "category")


def is_esc50(root: Path) -> bool:
    return (root / TABLE).is_file() and (root / "audio").is_dir()


def open_esc50(root: Path, classes: Sequence[str] | None, rule: SplitRule) -> Dataset:
    """The clips that the table names. The group of a clip is its fold: parts of one recording are in one fold."""
    rows = _rows(root / TABLE)
    paths = {row["filename"]: root / "audio" / row["filename"] for row in rows}
    missing = [name for name, path in paths.items() if not path.is_file()]
    problems = [f"{len(missing)} clips of {TABLE} are not in audio/, left out: {listed(missing)}"] if missing else []
    durations, damaged = check_media(path for path in paths.values() if path.is_file())
    usable = [row for row in rows if paths[row["filename"]] in durations]
    class_names = tuple(classes or sorted({row["category"] for row in usable}))
    unknown = sorted({row["category"] for row in usable} - set(class_names))
    if unknown:
        raise InputError(f"{root / TABLE}: categories that are no class in --classes: {listed(unknown)}; add them")
    if not usable:
        raise InputError(f"{root}: none of the clips of {TABLE} can be used: unpack the whole archive")
    items = [
        Item(
            name=f"{row['category']}/{Path(row['filename']).stem}",
            split=UNDECIDED,
            media=paths[row["filename"]],
            label=class_names.index(row["category"]),
            duration=durations[paths[row["filename"]]],
            group=row["fold"],
        )
        for row in usable
    ]
    return Dataset("folder", "clips", root, class_names, tuple(rule.apply(items)), problems=(*problems, *damaged))


def _rows(table: Path) -> list[dict[str, str]]:
    rows = read_table(table, COLUMNS, "ESC-50")
    outside = [row["filename"] for row in rows if Path(row["filename"]).name != row["filename"]]
    if outside:
        raise InputError(f"{table} names files that are not plain names: {listed(outside)}")
    return rows
