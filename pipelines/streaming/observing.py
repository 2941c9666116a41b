"""Who watches a stream while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipelines.streaming.messages import Remark, SourceEnded
from pipelines.streaming.output.summary import Statistics
from pipelines.streaming.playing.pump import MediaItem
from pipelines.streaming.predicting.prediction import Prediction


class Observer(Protocol):
    """Somebody who watches a stream, and must not keep it waiting. Remarks and media may come from any thread."""

    def begin(self, statistics: Statistics) -> None: ...

    def predicted(self, prediction: Prediction) -> None: ...

    def played(self, number: int, item: MediaItem, time: float) -> None:
        """A source plays this piece of what its features are made of: sound, or a picture. time: as in predictions."""

    def ended(self, event: SourceEnded) -> None: ...

    def remark(self, remark: Remark) -> None: ...


class Observers:
    """Several of them, as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def begin(self, statistics: Statistics) -> None:
        for observer in self._observers:
            observer.begin(statistics)

    def predicted(self, prediction: Prediction) -> None:
        for observer in self._observers:
            observer.predicted(prediction)

    def played(self, number: int, item: MediaItem, time: float) -> None:
        for observer in self._observers:
            observer.played(number, item, time)

    def ended(self, event: SourceEnded) -> None:
        for observer in self._observers:
            observer.ended(event)

    def remark(self, remark: Remark) -> None:
        for observer in self._observers:
            observer.remark(remark)
