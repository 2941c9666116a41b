"""Recordings or feature files of a user with a table of events: per-frame detection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item, Segment
from pipelines.datasets.own.annotation_csv import AnnotationTable, Event, check_overlaps, check_range, read_table
from pipelines.datasets.own.media_check import is_media, media_duration
from pipelines.datasets.own.split_rule import UNDECIDED, SplitRule
from pipelines.datasets.rows.feature_files import is_feature_file
from pipelines.errors import InputError
from pipelines.wording import listed

BACKGROUND = "background"
# Seconds by which an event may end after its file: editors round up, and headers round down. It is cut at the
# end.
END_TOLERANCE = 0.25


def open_events(
    root: Path,
    path: Path,
    *,
    classes: Sequence[str] | None,
    multi_label: bool,
    rule: SplitRule,
    hop: float | None,
) -> Dataset:
    """The files that the table names. Class 0 is background: what no event covers."""
    table = read_table(path)
    class_names = _class_names(table, classes)
    places = _files(root)
    items: list[Item] = []
    problems: list[str] = []
    if table.ignored_columns:
        problems.append(f"{path}: columns that are not used: {', '.join(table.ignored_columns)}")
    for place, events in _by_path(table, places, root).items():
        if not multi_label:
            check_overlaps(table, events)
        try:
            duration = media_duration(place) if is_media(place) else None
        except InputError as error:
            problems.append(f"damaged, left out: {error}")
            continue
        if duration is not None:
            check_range(table, events, duration, END_TOLERANCE)
        items.append(_item(table, root, place, events, class_names, duration))
    if not items:
        raise InputError(f"{path}: none of its files can be used; {problems[0]}")
    names = [item.name for item in items]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"{path}: files that differ only in their suffix: {listed(twice)}; rename or remove one of each"
        )
    used = {item.media for item in items} | {feature for item in items for feature in item.features}
    unnamed = sorted({place.name for place in places.values()} - {place.name for place in used if place})
    if unnamed:
        problems.append(f"files that the table does not name, left out: {listed(unnamed)}")
    items = rule.apply(items)
    trained = {segment.label for item in items if item.split == "train" for segment in item.segments or ()}
    untrained = [label for index, label in enumerate(class_names) if index > 0 and index not in trained]
    if untrained:
        problems.append(f"labels without a training event: {listed(untrained)}")
    return Dataset(
        "folder",
        "frames",
        root,
        class_names,
        tuple(items),
        hop=hop,
        background=0,
        multi_label=multi_label,
        problems=tuple(problems),
    )


def _class_names(table: AnnotationTable, classes: Sequence[str] | None) -> tuple[str, ...]:
    labels = [label for label in table.labels if label != BACKGROUND]
    if not labels:
        raise InputError(f"{table.path}: there is no event in the table, so there is nothing to learn: add some")
    if classes is None:
        return (BACKGROUND, *labels)
    wanted = [label for label in classes if label != BACKGROUND]
    unknown = [label for label in labels if label not in wanted]
    if unknown:
        raise InputError(f"{table.path}: labels that are no class in --classes: {listed(unknown)}; add them there")
    unused = [label for label in wanted if label not in labels]
    if unused:
        raise InputError(
            f"{table.path}: the label '{unused[0]}' occurs in no split: the table has no event of it; leave it out of "
            "--classes"
        )
    return (BACKGROUND, *wanted)


def _files(root: Path) -> dict[str, Path]:
    """Media and feature files by relative path, with and without suffix; media goes before features."""
    usable = [path for path in sorted(root.rglob("*")) if path.is_file()]
    features = [path for path in usable if is_feature_file(path)]
    places: dict[str, Path] = {}
    for path in [*features, *(path for path in usable if is_media(path))]:
        relative = path.relative_to(root)
        for key in (relative.as_posix(), relative.with_suffix("").as_posix()):
            places[key] = path
    return places


def _by_path(table: AnnotationTable, places: dict[str, Path], root: Path) -> dict[Path, list[Event]]:
    """The events of each file, in order of time; a file may be named in several ways."""
    grouped: dict[Path, list[Event]] = {}
    known: dict[str, Path] = {}
    for event in table.events:
        if event.file not in known:
            known[event.file] = _locate(table, places, root, event.file, event.line)
        grouped.setdefault(known[event.file], []).append(event)
    return {path: sorted(events, key=lambda event: event.start) for path, events in grouped.items()}


def _locate(table: AnnotationTable, places: dict[str, Path], root: Path, file: str, line: int) -> Path:
    """The file that a line names: by its path from the root, or by a name that only one file has."""
    if file in places:
        return places[file]
    alike = sorted({path for path in places.values() if file in (path.name, path.stem)})
    if len(alike) == 1:
        return alike[0]
    if alike:
        named = ", ".join(path.relative_to(root).as_posix() for path in alike)
        raise InputError(f"{table.path}, line {line}: '{file}' may be any of {named}: give the path from {root}")
    raise InputError(
        f"{table.path}, line {line}: there is no file '{file}' in {root}; correct the table or add the file"
    )


def _item(
    table: AnnotationTable,
    root: Path,
    place: Path,
    events: Sequence[Event],
    class_names: tuple[str, ...],
    duration: float | None,
) -> Item:
    splits = {event.split for event in events}
    groups = {event.group for event in events if event.group}
    if len(splits) > 1 or len(groups) > 1:
        what = "splits" if len(splits) > 1 else "groups"
        raise InputError(f"{table.path}: {events[0].file} is in several {what}; a file must be in one")
    name = place.relative_to(root).with_suffix("").as_posix()
    segments = tuple(
        Segment(event.start, event.end, class_names.index(event.label), f"{table.path.name}, line {event.line}")
        for event in events
        if event.label and event.label != BACKGROUND
    )
    return Item(
        name,
        splits.pop() or UNDECIDED,
        media=place if is_media(place) else None,
        features=() if is_media(place) else (place,),
        segments=segments,
        duration=duration,
        group=groups.pop() if groups else None,
    )
