"""Where predictions are written: a file, standard output, or a folder with a file for each source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

from pipelines.errors import InputError
from pipelines.streaming.messages import SourceEnded
from pipelines.streaming.output.formats import Format, SegmentFormat
from pipelines.streaming.output.segments import Segment, SegmentMerger
from pipelines.streaming.predicting.prediction import Prediction

Event = Prediction | SourceEnded


class Sink(Protocol):
    """Takes the events of a stream in order."""

    def write(self, event: Event) -> None: ...

    def close(self) -> None: ...

    def state(self) -> Any: ...


class TextTarget:
    """A file or an open stream. Every piece is flushed at once.

    What a file held before stays until there is something to write: a source that cannot be played empties nothing.
    """

    def __init__(self, where: Path | TextIO, header: str, position: int | None = None) -> None:
        """header: written first. position: go on in a file from this byte on; what came after it is cut off."""
        self._own = isinstance(where, Path)
        self._header: str | None = header  # None: it has begun
        self._name = str(where) if isinstance(where, Path) else "standard output"
        if isinstance(where, Path):
            try:
                where.parent.mkdir(parents=True, exist_ok=True)
                going_on = position is not None and where.is_file() and where.stat().st_size >= position
                kept = where.is_file()
                self._file = cast(TextIO, where.open("r+" if kept else "w", encoding="utf-8", newline=""))
                if going_on and position:
                    self._file.truncate(position)
                    self._file.seek(0, 2)
                    self._header = None
            except OSError as error:
                raise InputError(f"cannot write to {where}: {error.strerror or error}") from error
        else:
            self._file = where
            self.begin()

    def begin(self) -> None:
        """Something will be written: the file is emptied, and its header stands in it."""
        if self._header is None:
            return
        header, self._header = self._header, None
        if self._own and self._file.seekable():
            self._file.truncate(0)
        self.write(header)

    @property
    def position(self) -> int | None:
        """Bytes in the file so far; None where that means nothing."""
        return self._file.tell() if self._own else None

    def write(self, text: str) -> None:
        if not text:
            return
        try:
            self._file.write(text)
            self._file.flush()
        except BrokenPipeError:
            raise  # whoever read it has gone: not an error of ours
        except OSError as error:
            raise InputError(f"cannot write to {self._name}: {error.strerror or error}") from error

    def close(self) -> None:
        if self._own:
            self._file.close()


def _failed(event: Event) -> bool:
    """Whether it only says that a source could not be played."""
    return isinstance(event, SourceEnded) and event.error is not None


class FrameSink:
    """A line for every prediction."""

    def __init__(self, target: Path | TextIO, form: Format, state: Mapping[str, Any] | None = None) -> None:
        self._target = TextTarget(target, form.header(), (state or {}).get("position"))
        self._form = form

    def write(self, event: Event) -> None:
        if not _failed(event):
            self._target.begin()
        if isinstance(event, Prediction):
            self._target.write(self._form.prediction(event))

    def close(self) -> None:
        self._target.close()

    def state(self) -> dict[str, Any]:
        return {"position": self._target.position}


class SegmentSink:
    """A line or a cue for every stretch with the same label, written when it is over."""

    def __init__(
        self,
        target: Path | TextIO,
        form: SegmentFormat,
        merger: Callable[[int, str], SegmentMerger],
        class_names: Callable[[int], tuple[str, ...]],
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """merger: makes one for the source of that number and name. class_names: of the model that watches it."""
        state = state or {}
        self._target = TextTarget(target, form.header(), state.get("position"))
        self._form, self._merger, self._class_names = form, merger, class_names
        self._written = int(state.get("written", 0))
        self._mergers: dict[int, SegmentMerger] = {}
        for number, (name, tracks) in state.get("open", {}).items():
            self._mergers[int(number)] = merger(int(number), name)
            self._mergers[int(number)].restore(tracks)
        self._names = {int(number): name for number, (name, _) in state.get("open", {}).items()}

    def write(self, event: Event) -> None:
        if not _failed(event):
            self._target.begin()
        if isinstance(event, SourceEnded):
            if event.number in self._mergers:
                self._write(self._mergers.pop(event.number).finish(event.end))
            return
        number = event.source_number
        if number not in self._mergers:
            self._mergers[number] = self._merger(number, event.source)
            self._names[number] = event.source
        self._write(self._mergers[number].push(event, self._class_names(number)))

    def close(self) -> None:
        for number in list(self._mergers):
            self._write(self._mergers.pop(number).finish())
        self._target.close()

    def state(self) -> dict[str, Any]:
        unfinished = {str(number): (self._names[number], merger.state()) for number, merger in self._mergers.items()}
        return {"position": self._target.position, "written": self._written, "open": unfinished}

    def _write(self, segments: list[Segment]) -> None:
        for segment in segments:
            self._written += 1
            self._target.write(self._form.segment(segment, self._written))


class FolderSink:
    """A file for each source."""

    def __init__(self, make: Callable[[int, Mapping[str, Any] | None], Sink], state: Mapping[str, Any] | None) -> None:
        """make: a sink for the source of that number, going on from a state."""
        self._make = make
        self._sinks: dict[int, Sink] = {}
        self._state = dict(state or {})
        for number in list(self._state):
            self._sinks[int(number)] = make(int(number), self._state[number])

    def write(self, event: Event) -> None:
        number = event.number if isinstance(event, SourceEnded) else event.source_number
        if number not in self._sinks:
            if isinstance(event, SourceEnded) and event.error is not None:
                return  # it never gave anything
            self._sinks[number] = self._make(number, None)
        self._sinks[number].write(event)

    def close(self) -> None:
        for sink in self._sinks.values():
            sink.close()

    def state(self) -> dict[str, Any]:
        return {str(number): sink.state() for number, sink in self._sinks.items()}
