"""Media from a pump in the order and at the time at which it plays. A time among it: nothing comes before."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Generator, Iterator
from itertools import count
from threading import Event

from pipelines.features.media import AudioBlock
from pipelines.streaming.messages import StoppedError
from pipelines.streaming.playing.pacing import PlaybackClock
from pipelines.streaming.playing.pump import Arrived, MediaItem, MediaPump, Opened, Over
from pipelines.streaming.playing.turns import PATIENCE, a_while

PIECE = 0.02  # seconds of sound that are handed on at a time, as a microphone would, where nobody says another
# Pieces, and seconds, that are sorted by time; files store sound and pictures up to a second apart.
AHEAD, SECONDS_AHEAD = 64, 2.0


def opened(pump: MediaPump, stop: Event) -> Generator[float, None, Opened]:
    """Turns until the source is open; raise what prevents it."""
    while not stop.is_set():
        message = pump.get()
        if isinstance(message, Over):
            raise message.error or AssertionError("a source ended before it was open")
        if isinstance(message, Opened):
            return message
        yield a_while()
    raise StoppedError


def as_it_comes(pump: MediaPump, stop: Event) -> Iterator[Arrived | float]:
    """Every piece when it arrives; raises what ends the source, unless that is its end."""
    while not stop.is_set():
        message = pump.get()
        if isinstance(message, Arrived):
            yield message
        elif isinstance(message, Over):
            if message.error is not None:
                raise message.error
            return
        else:
            yield a_while()
    raise StoppedError


def in_real_time(
    pump: MediaPump,
    clock: PlaybackClock,
    begin: float,
    stop: Event,
    piece_end: Callable[[float], float] = lambda media: media + PIECE,
) -> Iterator[Arrived | float]:
    """Every piece when the clock reaches its end. The clock starts at media time `begin` with the first piece.

    What ends before `begin` is passed on at once. piece_end: from the media time at which a piece of sound begins to
    the one at which it ends at the latest.
    """

    def due_at(item: MediaItem) -> float:
        """Media time at which a piece is known: a picture when it is shown, sound when it has been heard."""
        return min(piece_end(item.time), item.end) if isinstance(item, AudioBlock) else item.time

    waiting: list[tuple[float, int, MediaItem]] = []  # by the time at which they are due
    numbers = count()  # pieces that are due together stay in order
    newest = -math.inf  # media seconds
    over: Over | None = None
    while not stop.is_set():
        while over is None and len(waiting) < AHEAD and (not waiting or newest - waiting[0][0] < SECONDS_AHEAD):
            message = pump.get()
            if isinstance(message, Arrived):
                newest = max(newest, message.item.end)
                heapq.heappush(waiting, (due_at(message.item), next(numbers), message.item))
            elif isinstance(message, Over):
                over = message
            else:
                break
        if not waiting:
            if over is None:
                yield a_while()
                continue
            if over.error is not None:
                raise over.error
            return
        due, number, item = waiting[0]
        if due > begin:
            if not clock.started:
                clock.start(begin)
            now = time.monotonic()
            if clock.wall(due) > now:
                yield min(clock.wall(due), now + PATIENCE)
                continue
        heapq.heappop(waiting)
        if isinstance(item, AudioBlock):
            item, rest = split(item, max(due, begin) - item.time)
            if rest is not None:
                heapq.heappush(waiting, (due_at(rest), number, rest))
        yield Arrived(item, time.monotonic())
    raise StoppedError


def split(block: AudioBlock, seconds: float) -> tuple[AudioBlock, AudioBlock | None]:
    """The first `seconds` of a block (one sample at least), and the rest if there is any."""
    samples = max(1, round(seconds * block.rate))
    if samples >= len(block.samples):
        return block, None
    rest = AudioBlock(block.samples[samples:], block.rate, block.time + samples / block.rate)
    return AudioBlock(block.samples[:samples], block.rate, block.time), rest
