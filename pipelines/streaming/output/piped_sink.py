"""Standard output beside other outputs: where its reader leaves (`cotrans stream … | head`), the others go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipelines.streaming.output.sinks import Event, Sink


class PipedSink:
    """A sink that stops writing once nobody reads it."""

    def __init__(self, sink: Sink, on_left: Callable[[], None]) -> None:
        """on_left: told when the reader has gone."""
        self._sink, self._on_left = sink, on_left
        self._left = False

    def write(self, events: Sequence[Event]) -> None:
        if self._left:
            return
        try:
            self._sink.write(events)
        except BrokenPipeError:
            self._left = True
            self._on_left()

    def close(self) -> None:
        if self._left:
            return
        try:
            self._sink.close()
        except BrokenPipeError:
            self._left = True
            self._on_left()

    def state(self) -> Any:
        return self._sink.state()
