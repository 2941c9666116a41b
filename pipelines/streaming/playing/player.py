"""Playing one source from a place on: pass after pass, and over lost connections."""

from __future__ import annotations

import math
import time

from pipelines.errors import CotransError, InputError, SourceError
from pipelines.streaming.messages import StoppedError
from pipelines.streaming.playing.emitter import RowEmitter
from pipelines.streaming.playing.feature_player import play_rows
from pipelines.streaming.playing.media_player import MediaPlayer
from pipelines.streaming.playing.turns import Turns, a_while

MP4_WITHOUT_SEEKING = (
    "an MP4 whose index is at its end cannot be played from a server that does not take Range requests: download it "
    "first, or write it with `-movflags +faststart`"
)
FIRST_DELAY, LONGEST_DELAY = 0.5, 15.0  # seconds between attempts to reconnect; each waits twice as long


def play(emitter: RowEmitter) -> Turns[None]:
    """Play until the source ends or the stream is stopped. Raises what is wrong with the source."""
    source = emitter.source
    if source.problem is not None:
        raise InputError(source.problem)
    if emitter.context.stop.is_set():  # before its turn came
        return
    try:
        if source.kind == "url":
            yield from _play_connected(emitter)
            return
        ended: float | None = None
        while True:
            if source.kind == "features":
                ended = yield from play_rows(emitter, ended)
            else:
                player = MediaPlayer(emitter, ended)
                try:
                    yield from player.play()
                    if source.kind == "media":
                        emitter.ended_at()
                finally:
                    # The last row goes on for a whole hop, the media may not. In a loop, times go on without it.
                    emitter.media_end = None if emitter.context.options.loop else player.reached or None
                ended = player.clock.wall(player.reached) if player.clock.started else None
            if not (emitter.context.options.loop and source.repeatable):
                return
            emitter.next_turn()
    except StoppedError:
        return


def _play_connected(emitter: RowEmitter) -> Turns[None]:
    """A network source. A live one goes on with the present after a gap; another with what is missing."""
    options, stop = emitter.context.options, emitter.context.stop
    began: float | None = None  # monotonic time at which a live source's media time was 0
    lost_at: float | None = None
    attempts = 0

    def reopened(player: MediaPlayer) -> int:
        """The number of the first row of this connection."""
        if lost_at is None:
            return 0
        gap = time.monotonic() - lost_at
        if not player.live or began is None:
            emitter.reconnected(f"connected again after {gap:.1f} s: nothing is lost")
            return 0
        row = max(emitter.next.row, math.ceil((time.monotonic() - began) / player.hop))
        emitter.skip_to(row)
        emitter.restart_window()
        emitter.reconnected(f"connected again after a gap of {gap:.1f} s: the window restarts")
        return row

    while True:
        player = MediaPlayer(emitter, on_open=reopened)
        before = emitter.next.index
        reason = "the connection ended"
        try:
            yield from player.play()
            if not player.cut_off and (not player.live or options.attempts == 0 or _played_enough(emitter, player)):
                return
        except CotransError as error:
            if lost_at is None and player.info is None:
                raise  # it was never there
            if _needs_seeking(player, emitter):
                raise InputError(f"{emitter.source.name}: {MP4_WITHOUT_SEEKING}") from error
            reason = error.problem if isinstance(error, SourceError) else str(error)
        if began is None and player.clock.started:
            began = player.clock.wall(0.0)
        if emitter.next.index > before or lost_at is None:
            attempts, lost_at = 0, time.monotonic()
        attempts += 1
        if attempts > options.attempts:
            tried = f" and did not come back in {options.attempts} attempts" if options.attempts else ""
            raise InputError(f"{emitter.source.name}: was lost ({reason}){tried}")
        delay = min(FIRST_DELAY * 2 ** (attempts - 1), LONGEST_DELAY)
        emitter.remark(f"connection lost ({reason}): trying again in {delay:g} s")
        again = time.monotonic() + delay
        while time.monotonic() < again:
            if stop.is_set():
                raise StoppedError
            yield min(again, a_while())


def _needs_seeking(player: MediaPlayer, emitter: RowEmitter) -> bool:
    """Whether an MP4 was opened and then gave nothing: ffmpeg found its index at the end, and could not go back."""
    opened = player.info is not None and "mp4" in player.info.format.split(",")
    return opened and not player.live and emitter.next.index == 0


def _played_enough(emitter: RowEmitter, player: MediaPlayer) -> bool:
    limit = emitter.context.options.duration
    return limit is not None and emitter.next.row * player.hop >= limit - player.hop
