"""Handing the rows of one source to the model, with their numbers and times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

from pipelines.errors import CheckpointError
from pipelines.features.extractor import Rows
from pipelines.features.spec import FeatureSpec
from pipelines.streaming.messages import Place, Row, StoppedError
from pipelines.streaming.options import PlayOptions
from pipelines.streaming.playing.control import SourceControl
from pipelines.streaming.playing.inbox import Inbox
from pipelines.streaming.playing.pump import MediaItem, OpenMedia
from pipelines.streaming.playing.turns import Bell
from pipelines.streaming.sources.source import StreamSource

if TYPE_CHECKING:
    from pipelines.streaming.predicting.stream_model import StreamModel

# Source, whether its sound and its pictures are wanted, how it is played, and what ends the reading.
MediaOpener = Callable[[StreamSource, bool, bool, PlayOptions, Event], OpenMedia]
# Source, what is heard or seen now, and its time in the output, which goes on where a source plays again.
OnMedia = Callable[[int, MediaItem, float], None]
BEFORE = {"causal": 1.0, "centre": 0.5, "start": 0.0}  # hops of a row's stretch that lie before its time


@dataclass(frozen=True)
class PlayContext:
    """What all sources of a stream share, and what is asked of this one."""

    model: StreamModel
    options: PlayOptions
    open_media: MediaOpener
    inbox: Inbox
    control: SourceControl
    bell: Bell  # of the thread that plays it
    on_begin: Callable[[], None]  # a source is open and plays
    on_length: Callable[[int, float | None], None]  # source, media seconds that it will play where that is known
    on_remark: Callable[[int, str], None]  # source, one line
    on_reconnected: Callable[[int], None]  # source
    on_dropped: Callable[[int, int], None]  # source, rows
    on_decoded: Callable[[float], None]  # seconds
    on_media: OnMedia | None

    @property
    def stop(self) -> Event:
        """The source is to end, alone or with the whole stream."""
        return self.control.stop


class RowEmitter:
    """Numbers the rows of one source. Rows before `next` are computed for what follows them, and not handed on."""

    def __init__(
        self, context: PlayContext, number: int, source: StreamSource, slot: int, next_place: Place, restart: bool
    ) -> None:
        self.context, self.number, self.source = context, number, source
        self.next = next_place
        self.media_end: float | None = None  # media seconds, once a source that plays once has been played
        self.origin = context.options.start  # media seconds at which its first row begins
        self._slot = slot
        self._begun_at = next_place.row  # in the first pass
        self._reached = 0  # rows of the source that were ever there
        self._restart = restart
        self.drops = self.drops_when(live=False)

    def ring(self) -> None:
        """Something has come for the source: it wants its turn."""
        self.context.bell.ring(self._slot)

    def drops_when(self, live: bool) -> bool:
        """Whether rows that are late are dropped: said by the user, or else in live sources only."""
        late = self.context.options.late
        return late == "drop" if late else live

    def emit(self, rows: Rows, first: int, spec: FeatureSpec, complete: Callable[[int], float], seconds: float) -> None:
        """Hand on rows (k, width), the first of which is row `first` of this pass over the source.

        complete: from a row's number to the monotonic time at which its media had been played. seconds: how long all of
        them took to compute.
        """
        self._reached = max(self._reached, first + len(rows))
        options = self.context.options
        before, wait = BEFORE[spec.align] * spec.hop, options.most_lag if self.drops else None
        ready = []
        for row, values in enumerate(rows[max(0, self.next.row - first) :], max(first, self.next.row)):
            index = self.next.index + row - self.next.row
            moment = self.origin + spec.row_time(index)
            self.next = Place(self.next.turn, row + 1, index + 1)
            ready.append(
                Row(
                    source=self.number,
                    index=index,
                    place=self.next,
                    time=moment,
                    begin=moment - before,
                    end=moment - before + spec.hop,
                    values=values,
                    complete=complete(row),
                    feature_seconds=seconds / len(rows),
                    queued=time.monotonic(),
                    restart=self._restart,
                    longest_wait=wait,
                )
            )
            self._restart = False
        self.context.inbox.put(self._slot, *ready)
        if self.context.stop.is_set():
            raise StoppedError

    def ended_at(self, rows: int = 0) -> None:
        """The source is over after so many rows, or those that were given: refuse to have begun behind its end."""
        self._reached = max(self._reached, rows)
        if self._begun_at > self._reached:
            raise CheckpointError(
                f"{self.source.name}: the snapshot goes on from row {self._begun_at:,}, but there are "
                f"{self._reached:,}: it is not of this source, or was changed"
            )

    def restart_window(self) -> None:
        """The next row has nothing to do with those before."""
        self._restart = True

    def skip_to(self, row: int) -> int:
        """Leave rows out up to `row`; how many."""
        skipped = max(0, row - self.next.row)
        self.next = Place(self.next.turn, self.next.row + skipped, self.next.index + skipped)
        return skipped

    def next_turn(self) -> None:
        """The source begins again: its numbers and times go on, its window restarts."""
        self.next = Place(self.next.turn + 1, 0, self.next.index)
        self._restart = True

    def remark(self, text: str) -> None:
        self.context.on_remark(self.number, text)

    def reconnected(self, text: str) -> None:
        """A connection that was lost is there again."""
        self.context.on_reconnected(self.number)
        self.remark(text)
