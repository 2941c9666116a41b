"""Playing rows that were extracted before."""

from __future__ import annotations

import math
import time

from pipelines.errors import InputError, UsageError
from pipelines.features.request import DEFAULT_HOP
from pipelines.features.row_clock import RowClock
from pipelines.features.spec import ExtractorSpec, FeatureSpec
from pipelines.streaming.messages import StoppedError
from pipelines.streaming.playing.emitter import RowEmitter
from pipelines.streaming.playing.pacing import PlaybackClock
from pipelines.streaming.playing.turns import Turns, a_while
from pipelines.streaming.sources.feature_source import open_source_rows

FAST_BLOCK = 64  # rows that are read in one piece where nothing waits for the clock


def play_rows(emitter: RowEmitter, begin_at: float | None) -> Turns[float]:
    """Play a feature source once, from the emitter's place on. begin_at: the monotonic time of its first row's hop.

    Returns the monotonic time at which it ended.
    """
    context, source = emitter.context, emitter.source
    options, model = context.options, context.model
    opened = open_source_rows(source, model.model.config.input_width, model.features)
    rows = opened.rows
    spec = opened.spec or model.features or bare_spec(rows.width, options.hop)
    if options.hop not in (None, spec.hop):
        raise UsageError(f"--hop {options.hop:g}: {source.name} has rows every {spec.hop:g} s: leave it out")
    begin = math.ceil(options.start / spec.hop - 1e-9)
    count = len(rows) - begin
    if options.duration is not None:
        count = min(count, RowClock(spec.hop).rows(options.duration))
    if count < 1:
        raise InputError(f"{source.name}: there is no row from --start {options.start:g} on")
    emitter.origin = begin * spec.hop  # the rows are where they are, and --start may lie between two
    context.on_begin()
    context.on_length(emitter.number, None if options.loop else count * spec.hop)
    clock = PlaybackClock()
    clock.start(emitter.next.row * spec.hop, begin_at)
    block = FAST_BLOCK if options.fast else 1
    for row in range(emitter.next.row, count, block):
        clock.pause((yield from context.control.stand_still()))
        if not options.fast:
            yield from _wait(emitter, clock, (row + 1) * spec.hop)
        now = time.monotonic()
        values = rows[begin + row : begin + min(row + block, count)]
        due = now if options.fast else clock.wall((row + 1) * spec.hop)
        emitter.emit(values, row, spec, lambda _, due=due: due, time.monotonic() - now)  # type: ignore[misc]
    emitter.ended_at(count)
    return clock.wall(count * spec.hop)


def bare_spec(width: int, hop: float | None) -> FeatureSpec:
    """For features of which nothing is known but, maybe, their rate."""
    return FeatureSpec((ExtractorSpec("unknown", "video", width, 0.0),), hop or DEFAULT_HOP)


def _wait(emitter: RowEmitter, clock: PlaybackClock, media: float) -> Turns[None]:
    """Until a media time has been played. Where nothing may be dropped, a clock that ran ahead stands still."""
    lag = clock.lag(media)
    if not emitter.drops and lag > emitter.context.options.most_lag:
        clock.pause(lag)
    while clock.lag(media) < 0:
        if emitter.context.stop.is_set():
            raise StoppedError
        yield min(clock.wall(media), a_while())
