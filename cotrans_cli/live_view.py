"""The live view of `cotrans stream`, for terminals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cotrans_cli.console import note

if TYPE_CHECKING:
    from pipelines.streaming.pipeline import SourceEnded
    from pipelines.streaming.prediction import Prediction
    from pipelines.streaming.rows import Remark
    from pipelines.streaming.run import Observer
    from pipelines.streaming.source import StreamSource
    from pipelines.streaming.stream_model import StreamModel


class PlainObserver:
    """Remarks as lines on stderr; predictions are written by the sinks."""

    def predicted(self, prediction: Prediction) -> None:
        pass

    def ended(self, event: SourceEnded) -> None:
        if event.error is not None:
            note(f"cotrans: {event.error}")

    def remark(self, remark: Remark) -> None:
        note(f"{remark.source}: {remark.text}")


@contextmanager
def observing(live: bool, sources: list[StreamSource], model: StreamModel) -> Iterator[Observer]:
    """Who watches the stream: the live view, or somebody who passes remarks on."""
    yield PlainObserver()
