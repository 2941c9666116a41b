"""The threads that play sources: each has some rows of the batch, and plays one source after the other in each."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Thread

from pipelines.errors import CotransError, InputError
from pipelines.streaming.messages import Ended, Place
from pipelines.streaming.playing.control import SourceControl
from pipelines.streaming.playing.emitter import PlayContext, RowEmitter
from pipelines.streaming.playing.inbox import Inbox
from pipelines.streaming.playing.player import play
from pipelines.streaming.playing.rota import Rota, take_turns
from pipelines.streaming.playing.turns import Bell, Turns
from pipelines.streaming.sources.source import StreamSource


class SlotPlayers:
    """Sources that wait for a free slot, and those that play."""

    def __init__(
        self,
        sources: Sequence[StreamSource],
        controls: Sequence[SourceControl],
        context: Callable[..., PlayContext],
        inbox: Inbox,
        stop: Event,
    ) -> None:
        """context: of a source, from its `control` and its thread's `bell`."""
        self._sources, self._controls, self._context = sources, controls, context
        self._inbox, self._stop = inbox, stop
        self._playing: dict[int, int] = {}  # sources that go on from a snapshot, with their slots
        self._places: dict[int, Place] = {}
        self._pending = deque(range(len(sources)))

    def resume(self, playing: Mapping[int, int], places: Mapping[int, Place], over: set[int]) -> None:
        """Go on from a snapshot: sources in their slots, from their places on, but for those that are over."""
        self._playing, self._places = dict(playing), dict(places)
        self._pending = deque(number for number in self._pending if number not in playing and number not in over)

    def threads(self, slots: int, fast: bool) -> list[Thread]:
        """Without a clock (fast) every slot has one, and computes many rows at a time. With one there is little to do
        at a time, for many sources: a thread for each core, which all play all of them.
        """
        rotas = [self._rota([slot]) for slot in range(slots)] if fast else [self._rota(range(slots))]
        rotas *= 1 if fast else min(slots, os.cpu_count() or 1)
        return [
            Thread(target=take_turns, args=(rota,), name=f"cotrans features {number}", daemon=True)
            for number, rota in enumerate(rotas)
        ]

    def _rota(self, slots: Sequence[int]) -> Rota:
        first = {slot: number for number, slot in self._playing.items()}
        bell = Bell()
        return Rota({slot: self._play_slot(slot, first.get(slot), bell) for slot in slots}, bell)

    def _play_slot(self, slot: int, number: int | None, bell: Bell) -> Turns[None]:
        """Play one source after the other in one row of the batch."""
        try:
            while not self._stop.is_set():
                if number is None:
                    try:
                        number = self._pending.popleft()
                    except IndexError:
                        return
                ended = yield from self._play(slot, number, bell)
                if not self._stop.is_set():
                    self._inbox.put(slot, ended)
                number = None
        finally:
            self._inbox.finish(slot)

    def _play(self, slot: int, number: int, bell: Bell) -> Turns[Ended]:
        source = self._sources[number]
        context = self._context(control=self._controls[number], bell=bell)
        place = self._places.get(number, Place())
        emitter = RowEmitter(context, number, source, slot, place, restart=number not in self._playing)
        try:
            yield from play(emitter)
        except CotransError as error:
            return Ended(number, error, emitter.media_end)
        except Exception as error:
            # Whatever a strange source does to a decoder, the other sources go on.
            text = f"{source.name}: {type(error).__name__}: {error} (unexpected: please report it)"
            problem = InputError(text.replace("\n", " "))
            problem.__cause__ = error
            return Ended(number, problem, emitter.media_end)
        return Ended(number, None, emitter.media_end)
