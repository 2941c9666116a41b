"""Reading a user's annotation table: `file,start,end,label`, times in seconds, one line for each event.

A line with a file and nothing else says that nothing happens in that file. Optional columns: `split` (train,
validation or test) and `group` (what must not be divided between splits). Commas, semicolons or tabs
separate.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.datasets.dataset import SPLITS
from pipelines.errors import InputError

REQUIRED = ("file", "start", "end", "label")
OPTIONAL = ("split", "group")
SPLIT_NAMES = {**{split: split for split in SPLITS}, "val": "validation", "valid": "validation", "": ""}


@dataclass(frozen=True)
class Event:
    """One line of the table; `label` is empty for a line that only names a file."""

    file: str
    start: float
    end: float
    label: str
    split: str
    group: str
    line: int


@dataclass(frozen=True)
class AnnotationTable:
    path: Path
    events: tuple[Event, ...]
    ignored_columns: tuple[str, ...] = ()

    @property
    def labels(self) -> list[str]:
        return sorted({event.label for event in self.events if event.label})


def read_table(path: Path) -> AnnotationTable:
    """The table in a CSV file; the first bad line is an error that names it."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file in UTF-8: save it as such") from error
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        columns = [name.strip().lower() for name in reader.fieldnames or []]
        missing = [name for name in REQUIRED if name not in columns]
        if missing:
            raise InputError(
                f"{path}: the first line must name the columns {','.join(REQUIRED)}; missing: {', '.join(missing)}"
            )
        reader.fieldnames = columns
        events = tuple(_event(path, reader.line_num, row) for row in reader)
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV table ({error})") from error
    if not events:
        raise InputError(f"{path}: the table has no lines below its header: add one for each event")
    extra = tuple(name for name in columns if name not in (*REQUIRED, *OPTIONAL))
    return AnnotationTable(path, events, extra)


def _event(path: Path, line: int, row: Mapping[str | None, str | None]) -> Event:
    where = f"{path}, line {line}"
    if None in row:
        raise InputError(f"{where}: more fields than the first line has columns: quote fields that hold commas")
    fields = {name: (row.get(name) or "").strip() for name in (*REQUIRED, *OPTIONAL)}
    if not fields["file"]:
        raise InputError(f"{where}: no file name: fill in the column file")
    if fields["split"].lower() not in SPLIT_NAMES:
        raise InputError(f"{where}: unknown split '{fields['split']}': choose from {', '.join(SPLITS)}")
    split = SPLIT_NAMES[fields["split"].lower()]
    if not any(fields[name] for name in ("start", "end", "label")):
        return Event(fields["file"], 0.0, 0.0, "", split, fields["group"], line)
    if not fields["label"]:
        raise InputError(f"{where}: no label: fill it in")
    start, end = _seconds(where, "start", fields["start"]), _seconds(where, "end", fields["end"])
    if end <= start:
        raise InputError(f"{where}: the event ends at {end:g} s, not after its start at {start:g} s")
    return Event(fields["file"], start, end, fields["label"], split, fields["group"], line)


def _seconds(where: str, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where}: {column} must be a number of seconds, not '{text}'")
    if value < 0:
        raise InputError(f"{where}: {column} is {value:g} s, before the file begins")
    return value


def check_overlaps(table: AnnotationTable, events: Sequence[Event]) -> None:
    """Raise when two events of one file, in order of time, overlap."""
    latest: Event | None = None  # the one that ends last so far
    for event in events:
        if not event.label:
            continue
        if latest is not None and event.start < latest.end - 1e-9:
            raise InputError(
                f"{table.path}, lines {latest.line} and {event.line}: '{latest.label}' until {latest.end:g} s and "
                f"'{event.label}' from {event.start:g} s overlap in {event.file}; --multi-label allows it"
            )
        if latest is None or event.end > latest.end:
            latest = event


def check_range(table: AnnotationTable, events: Iterable[Event], duration: float, tolerance: float) -> None:
    """Raise when an event ends after its file does, by more than `tolerance` seconds."""
    for event in events:
        if event.end > duration + tolerance:
            raise InputError(
                f"{table.path}, line {event.line}: '{event.label}' ends at {event.end:g} s, but {event.file} has "
                f"only {duration:.2f} s: correct the table"
            )
