"""Where predictions are written: a file, standard output, or a folder with a file for each source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

from pipelines.errors import InputError
from pipelines.streaming.messages import SourceEnded
from pipelines.streaming.output.formats import Format, SegmentFormat
from pipelines.streaming.output.segments import Segment, SegmentMerger
from pipelines.streaming.output.text_target import TextTarget
from pipelines.streaming.predicting.prediction import Prediction

Event = Prediction | SourceEnded


class Sink(Protocol):
    """Takes the events of a stream in order, as many at a time as one step gives."""

    def write(self, events: Sequence[Event]) -> None: ...

    def close(self) -> None: ...

    def state(self) -> Any: ...


def _failed(event: Event) -> bool:
    """Whether it only says that a source could not be played."""
    return isinstance(event, SourceEnded) and event.error is not None


class FrameSink:
    """A line for every prediction."""

    def __init__(self, target: Path | TextIO, form: Format, state: Mapping[str, Any] | None = None) -> None:
        self._target = TextTarget(target, form.header(), (state or {}).get("position"))
        self._form = form

    def write(self, events: Sequence[Event]) -> None:
        if not all(map(_failed, events)):
            self._target.begin()
        predictions = (event for event in events if isinstance(event, Prediction))
        self._target.write("".join(map(self._form.prediction, predictions)))

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

    def write(self, events: Sequence[Event]) -> None:
        if not all(map(_failed, events)):
            self._target.begin()
        self._write([segment for event in events for segment in self._merged(event)])

    def _merged(self, event: Event) -> list[Segment]:
        """The stretches that are over with an event."""
        if isinstance(event, SourceEnded):
            return self._mergers.pop(event.number).finish(event.end) if event.number in self._mergers else []
        number = event.source_number
        if number not in self._mergers:
            self._mergers[number] = self._merger(number, event.source)
            self._names[number] = event.source
        return self._mergers[number].push(event, self._class_names(number))

    def close(self) -> None:
        for number in list(self._mergers):
            self._write(self._mergers.pop(number).finish())
        self._target.close()

    def state(self) -> dict[str, Any]:
        unfinished = {str(number): (self._names[number], merger.state()) for number, merger in self._mergers.items()}
        return {"position": self._target.position, "written": self._written, "open": unfinished}

    def _write(self, segments: list[Segment]) -> None:
        numbered = enumerate(segments, self._written + 1)
        self._target.write("".join([self._form.segment(segment, number) for number, segment in numbered]))
        self._written += len(segments)


class FolderSink:
    """A file for each source. One that cannot be written ends its source, and no other."""

    def __init__(
        self,
        make: Callable[[int, Mapping[str, Any] | None], Sink],
        state: Mapping[str, Any] | None,
        on_failed: Callable[[int, InputError], None],
    ) -> None:
        """make: a sink for the source of that number, going on from a state. on_failed: told the number and why."""
        self._make, self._on_failed = make, on_failed
        self._sinks: dict[int, Sink | None] = {}  # None: it cannot be written
        for number, sink_state in (state or {}).items():
            self._open(int(number), sink_state)

    def write(self, events: Sequence[Event]) -> None:
        by_source: dict[int, list[Event]] = {}
        for event in events:
            number = event.number if isinstance(event, SourceEnded) else event.source_number
            by_source.setdefault(number, []).append(event)
        for number, own in by_source.items():
            self._write(number, own)

    def _write(self, number: int, events: list[Event]) -> None:
        """Events of one source."""
        if number not in self._sinks:
            if all(map(_failed, events)):
                return  # it never gave anything
            self._open(number, None)
        sink = self._sinks[number]
        if sink is None:
            return
        try:
            sink.write(events)
        except InputError as error:
            self._fail(number, error)

    def close(self) -> None:
        for number, sink in self._sinks.items():
            if sink is None:
                continue
            try:
                sink.close()
            except InputError as error:
                self._fail(number, error)

    def state(self) -> dict[str, Any]:
        return {str(number): sink.state() for number, sink in self._sinks.items() if sink is not None}

    def _open(self, number: int, state: Mapping[str, Any] | None) -> None:
        try:
            self._sinks[number] = self._make(number, state)
        except InputError as error:
            self._fail(number, error)

    def _fail(self, number: int, error: InputError) -> None:
        self._sinks[number] = None
        self._on_failed(number, error)
