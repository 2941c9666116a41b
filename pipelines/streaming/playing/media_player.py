"""Playing media: decoded in a thread of its own, in turns at the pace of the source or of the clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial

from pipelines.features.extractor import Rows
from pipelines.features.joint import FeatureStream
from pipelines.features.media import AudioBlock, DamagedMediaError, MediaInfo, VideoFrame
from pipelines.features.row_clock import ROUNDING, RowClock
from pipelines.streaming.playing.emitter import RowEmitter
from pipelines.streaming.playing.paced_media import as_it_comes, in_real_time, opened, split
from pipelines.streaming.playing.pacing import PlaybackClock
from pipelines.streaming.playing.pump import Arrived, MediaItem, MediaPump
from pipelines.streaming.playing.turns import Given, Turns

SPARSE = 0.45  # of the pictures a second by which a model knows motion: with fewer it says little
# Seconds of sound that are handed on at a time: up to the end of the next row, or of several where they are so short,
# and no more than this.
SHORT_HOP, LONGEST_PIECE = 0.01, 0.1
SHORT_BY = 1.0  # seconds that an address may give less than it states before it counts as cut off


class MediaPlayer:
    """One pass over a source, or one connection to it."""

    def __init__(
        self, emitter: RowEmitter, begin_at: float | None = None, on_open: Callable[[MediaPlayer], int] | None = None
    ) -> None:
        """begin_at: the monotonic time at which the pass begins; None: when the source is ready.

        on_open: called when the source is open, gives the number of this pass's first row; None: 0.
        """
        self.emitter = emitter
        self.info: MediaInfo | None = None  # known once the source is open
        self.clock = PlaybackClock()
        self.reached = 0.0  # media seconds
        self.hop = 0.0  # seconds
        self._begin_at, self._on_open = begin_at, on_open
        self._options = emitter.context.options
        self._first_row = 0
        self._skipped = 0  # rows of this pass before the first of `_stream`
        self._cut = 0.0  # media seconds: what comes before is not looked at
        self._caught_up = 0.0  # media seconds: what comes before is late, and dealt with
        self._may_skip = False  # one row at least comes between two skips
        self._seconds = 0.0  # spent on features since the last row
        self._stream = self._new_stream(0)
        self.hop = self._stream.spec.hop

    @property
    def live(self) -> bool:
        """Whether the source has a pace of its own."""
        source = self.emitter.source
        return source.device or source.kind == "pipe" or (source.kind == "url" and self._duration is None)

    @property
    def cut_off(self) -> bool:
        """Whether less came than the source stated."""
        if self.emitter.source.kind != "url" or self._duration is None or self._options.duration is not None:
            return False
        return self.reached < self._duration - SHORT_BY

    def play(self) -> Turns[None]:
        """Until the source ends. A damaged source gives all its rows and then raises."""
        context, source = self.emitter.context, self.emitter.source
        audio, video = self._stream.needs_audio, self._stream.needs_video
        # A file is at hand before its time: then its rows do not wait for what a resampler holds back.
        rate = self._stream.audio_rate if source.repeatable and not video else None
        pump = MediaPump(
            lambda stop: context.open_media(source, audio, video, self._options, stop),
            video,
            self._options.fast and source.repeatable,
            context.on_decoded,
            self.emitter.ring,
            rate,
        )
        problem: Exception | None = None
        try:
            self.info = (yield from opened(pump, context.stop)).info
            self._look_at_the_rate()
            self.emitter.drops = self.emitter.drops_when(live=self.live and source.kind != "pipe")
            context.on_begin()
            known = self._seconds_in_all < math.inf and not (self.live or self._options.loop)
            context.on_length(self.emitter.number, self._seconds_in_all if known else None)
            if self._on_open is not None:
                self._first_row = self._on_open(self)
            yield from self._feed(self._pieces(pump, resampled=rate is not None))
        except Exception as error:  # raised again below, when nobody uses the source any more
            problem = error
        finally:
            pump.leave()
        yield from pump.gone()
        if problem is not None:
            raise problem

    def _look_at_the_rate(self) -> None:
        """A remark where the source has so few pictures that motion is not what the model has learned."""
        wanted, video = self._stream.motion_rate, self.info.video if self.info else None
        if wanted and video and video.rate and video.rate < SPARSE * wanted and self.emitter.next.turn == 0:
            self.emitter.remark(
                f"{video.rate:.3g} pictures a second are few for a model that knows motion at {wanted:.3g}"
            )

    @property
    def _duration(self) -> float | None:
        return self.info.duration if self.info else None

    @property
    def _unpaced(self) -> bool:
        return self._options.fast and not self.live

    def _new_stream(self, row: int) -> FeatureStream:
        """A feature stream whose first row is row `row` of this pass."""
        stream = self.emitter.context.model.feature_streams.new()
        stream.origin = self._options.start + row * stream.spec.hop
        self._skipped = row
        self._cut = self._caught_up = stream.origin if row else 0.0
        self._may_skip = False
        return stream

    def _pieces(self, pump: MediaPump, resampled: bool) -> Iterator[Arrived | float]:
        """resampled: no sample is held back between the pump and the features."""
        stop = self.emitter.context.stop
        if self.live or self._options.fast:
            return as_it_comes(pump, stop)
        resumed = self._options.start + (self.emitter.next.row - self._first_row) * self.hop
        if self._begin_at is not None:
            self.clock.start(resumed, self._begin_at)
        if resampled:
            return in_real_time(pump, self.clock, resumed, stop, self._piece_end)
        return in_real_time(pump, self.clock, resumed, stop)

    def _piece_end(self, media: float) -> float:
        """Where a piece of sound ends that begins at a media time: with the sound of a row, if one is due soon."""
        since = media + max(0.0, SHORT_HOP - self.hop) - self._stream.origin
        due = self._stream.origin + self._stream.sound_due_after(since) + ROUNDING  # a sample more is none too few
        return min(due, media + LONGEST_PIECE)

    def _feed(self, pieces: Iterator[Arrived | float]) -> Turns[None]:
        damage: DamagedMediaError | None = None
        context = self.emitter.context
        at = time.monotonic()
        try:
            for piece in self._wanted(pieces):
                if isinstance(piece, float):
                    yield piece
                    continue
                # Without a clock, latency counts from when the piece is taken up, not from when it was decoded.
                item, at = piece.item, time.monotonic() if self._unpaced else piece.at
                if self.live:
                    self.clock.arrived(item.end, at)
                if context.on_media is not None:
                    context.on_media(self.emitter.number, item, item.time + self._shift)
                self._keep_up(item.end)
                wanted = before(after(item, self._cut), self._end)
                if wanted is not None:
                    self._hand_on((yield from self._rows(wanted)), at)
                self.reached = max(self.reached, item.end)
                if self.reached >= self._end:
                    break
        except DamagedMediaError as error:
            damage = error
        self._hand_on(self._timed(self._stream.flush), at)
        if damage is not None:
            raise damage

    def _wanted(self, pieces: Iterator[Arrived | float]) -> Iterator[Arrived | float]:
        """What comes while nobody pauses the source. A present goes on meanwhile, and is left out; a file waits."""
        control, source = self.emitter.context.control, self.emitter.source
        skipping = False
        for piece in pieces:
            if isinstance(piece, float):
                yield piece
                continue
            if control.paused and self.live and source.kind != "pipe":
                self.clock.arrived(piece.item.end, piece.at)
                skipping = True
                continue
            if skipping:
                self._skip_to_now(gap=True)
                self.emitter.restart_window()
                skipping = False
            elif (paused := (yield from control.stand_still())) and self.clock.started:
                self.clock.pause(paused)
            yield piece

    def _rows(self, item: MediaItem) -> Turns[Rows]:
        """Rows that are complete with a piece. Those of sound may be computed with other sources'."""
        if not isinstance(item, AudioBlock):
            return self._timed(partial(self._stream.push_frame, item))
        self._timed(partial(self._stream.accept_audio, item.samples, item.rate))
        computed = yield self._stream
        assert computed is not None
        self._seconds += computed.seconds
        return computed.rows

    def _timed(self, compute: Callable[[], Given]) -> Given:
        begin = time.monotonic()
        result = compute()
        self._seconds += time.monotonic() - begin
        return result

    def _hand_on(self, rows: Rows, at: float) -> None:
        """Rows that were completed by a piece which came `at`."""
        if not len(rows):
            return
        self._may_skip = True
        seconds, self._seconds = self._seconds, 0.0
        first = self._first_row + self._skipped + self._stream.rows_given - len(rows)
        by_clock = self.clock.started and not self._unpaced

        def complete(row: int) -> float:
            return self.clock.wall(self._media(row + 1)) if by_clock else at

        self.emitter.emit(rows, first, self._stream.spec, complete, seconds)

    @property
    def _shift(self) -> float:
        """Seconds from media time in this pass to the time that is told of it."""
        place = self.emitter.next
        return (self._first_row + place.index - place.row) * self.hop

    def _media(self, row: int) -> float:
        """Media time of this pass at which row `row` begins."""
        return self._options.start + (row - self._first_row) * self.hop

    def _keep_up(self, media: float) -> None:
        """Deal with being late: skip to now, or let the clock stand still."""
        if self._unpaced or not self.clock.started or media <= self._caught_up:
            return
        lag = self.clock.lag(media)
        if lag <= self._options.most_lag:
            return
        if self.emitter.drops and self._may_skip:
            self.emitter.context.on_dropped(self.emitter.number, self._skip_to_now(gap=False))
        elif self.emitter.drops or not self.live:
            # Nothing is left to skip: the source itself is late, or nothing may be dropped.
            self.clock.pause(lag)

    def _skip_to_now(self, gap: bool) -> int:
        """Leave out what lies before the media time that is played now; how many rows. gap: some of it never came.

        A stream that begins anew takes ten times as long for its first rows: who is late for once would stay it.
        """
        row = int(min(math.ceil((self.clock.now() - self._options.start) / self.hop), self._rows_in_all))
        if not gap and self._stream.skip_to(row - self._skipped):
            self._caught_up = self._options.start + row * self.hop
            self._may_skip = False
        else:
            self._stream = self._new_stream(row)
        return self.emitter.skip_to(self._first_row + row)

    @property
    def _rows_in_all(self) -> float:
        """Rows of this pass, where the source says how long it is: there is nothing to skip to after them."""
        return math.inf if self._duration is None else RowClock(self.hop).rows(self._seconds_in_all)

    @property
    def _seconds_in_all(self) -> float:
        """Media seconds of this pass, where the source says how long it is."""
        left = math.inf if self._duration is None else max(0.0, self._duration - self._options.start)
        return left if self._options.duration is None else min(left, self._options.duration)

    @property
    def _end(self) -> float:
        """Media time of this pass at which a live source has played for as long as was asked for."""
        limit = self._options.duration
        if limit is None or not self.live:  # files are cut by their decoder
            return math.inf
        return self._options.start + limit - self._first_row * self.hop


def after(item: MediaItem, media: float) -> MediaItem | None:
    """The part of a piece from a media time on; of a picture that is still on display, the rest of its time."""
    if item.time >= media:
        return item
    if item.end <= media:
        return None
    if isinstance(item, AudioBlock):
        return split(item, media - item.time)[1]
    return VideoFrame(media, item.end - media, lambda: item.image)


def before(item: MediaItem | None, media: float) -> MediaItem | None:
    """The part of a piece before a media time."""
    if item is None or item.end <= media:
        return item
    if item.time >= media:
        return None
    if isinstance(item, AudioBlock):
        return split(item, media - item.time)[0]
    return VideoFrame(item.time, media - item.time, lambda: item.image)
