"""The truth lane of a report: what a table of events says about one recording."""

from __future__ import annotations

from pathlib import Path, PurePath

from pipelines.datasets.own.annotation_csv import AnnotationTable, read_table
from pipelines.errors import InputError
from pipelines.pages.recording import Stretch
from pipelines.wording import listed


class TruthTable:
    """The events of a table `file,start,end,label` by recording."""

    def __init__(self, path: Path) -> None:
        self._table: AnnotationTable = read_table(path)
        self._names = sorted({event.file for event in self._table.events})

    def of(self, file: str) -> list[Stretch] | None:
        """The events of one recording, in order of time; None: the table does not name it."""
        path = PurePath(file)
        lines = [event for event in self._table.events if _names(event.file, path)]
        if not lines:
            return None
        stretches = [(event.start, event.end, event.label) for event in lines if event.label]
        return sorted(stretches)

    def require_any(self, files: list[str]) -> None:
        """Refuse a table that names none of the recordings."""
        if all(self.of(file) is None for file in files):
            raise InputError(
                f"{self._table.path}: no line about {listed([PurePath(file).name for file in files])}; it names "
                f"{listed(self._names)}"
            )


def _names(text: str, path: PurePath) -> bool:
    """Whether a line's file is this one: by the end of its path, with or without its suffix."""
    named = PurePath(text).parts
    return named in (path.parts[-len(named) :], path.with_suffix("").parts[-len(named) :])
