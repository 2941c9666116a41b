"""Where a stream and the pages that show it meet: the stream leaves things here, the server's thread hands them on."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import Protocol

from pipelines import __version__
from pipelines.features.media import VideoFrame
from pipelines.serving.picture import Picture
from pipelines.serving.sound import STEP, SoundLevel
from pipelines.serving.track import Track, model_name
from pipelines.streaming.messages import Remark, SourceEnded
from pipelines.streaming.output.summary import Statistics
from pipelines.streaming.playing.pump import MediaItem
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.predicting.stream_model import StreamModel
from pipelines.streaming.sources.names import public_names
from pipelines.streaming.sources.source import StreamSource

PICTURES_EVERY = 0.5  # seconds
NUMBERS_EVERY = 1.0  # seconds
OVER = ("ended", "failed", "stopped")  # states of a source that does not go on


class Controls(Protocol):
    """What a page may ask of a stream."""

    def pause_source(self, number: int, paused: bool = True) -> None: ...

    def stop_source(self, number: int) -> None: ...


class LiveSource:
    """One source, with the tracks of all models that watch it."""

    def __init__(self, name: str, kind: str, tracks: Sequence[int]) -> None:
        self.name, self.kind, self.tracks = name, kind, tuple(tracks)
        self.picture, self.sound = Picture(), SoundLevel()
        self.ears: int | None = None  # the track whose sound is measured: several models hear the same
        self.paused = self.stopped = False  # as asked for
        self.ended: dict[int, bool] = {}  # by track: whether it failed
        self.state, self.changed = "waiting", 0  # and the number of the message that tells of it

    def current(self, begun: bool) -> str:
        """begun: something was said of it."""
        if len(self.ended) == len(self.tracks):
            return "stopped" if self.stopped else "failed" if all(self.ended.values()) else "ended"
        if self.stopped:
            return "stopping"
        return "paused" if self.paused else "playing" if begun else "waiting"


class LiveHub:
    """An observer of a stream that never keeps it waiting: it only takes down what it is told.

    Messages are numbered. `collect` makes the next one out of what has come; `since` is everything after a number, in
    one message. Both belong to the server's thread. No text of an error or a remark is told: they name paths.
    """

    def __init__(self, sources: Sequence[StreamSource], models: Sequence[StreamModel], pictures: bool = True) -> None:
        """sources: each once; pictures: whether pages may show what is seen."""
        self.run = secrets.token_hex(6)  # tells this stream from one that was served here before
        self.controls: Controls | None = None
        self.number = 0
        self._pictures = pictures
        count = len(models)
        self.sources = [
            LiveSource(name, source.kind, range(place * count, (place + 1) * count))
            for place, (name, source) in enumerate(zip(public_names(sources), sources, strict=True))
        ]
        self._tracks = [Track(place, model, model_name(model)) for place in range(len(sources)) for model in models]
        self._statistics: Statistics | None = None
        self._over = False
        self._told_over = 0  # number of the message that tells of the end
        self._figures, self._figured = "", 0
        self._pictured_at = self._figured_at = 0.0  # monotonic times

    # ---- the observer, from threads of the stream ----------------------------------------------------------

    def begin(self, statistics: Statistics) -> None:
        self._statistics = statistics

    def predicted(self, prediction: Prediction) -> None:
        self._tracks[prediction.source_number].predicted(prediction)

    def played(self, number: int, item: MediaItem, time: float) -> None:
        source = self.sources[self._tracks[number].source]
        if isinstance(item, VideoFrame):
            if self._pictures:
                source.picture.played(item)
        elif source.ears in (None, number):
            source.ears = number
            source.sound.played(item, time)

    def ended(self, event: SourceEnded) -> None:
        source = self.sources[self._tracks[event.number].source]
        source.ended = {**source.ended, event.number: event.error is not None}

    def remark(self, remark: Remark) -> None:
        """Pages see that a source reconnects by its numbers."""

    def finish(self) -> None:
        """The stream is over."""
        self._over = True

    # ---- asked by pages --------------------------------------------------------------------------------------

    def pause(self, place: int, paused: bool) -> bool:
        """Let a source stand still or go on; whether that is possible."""
        source = self.sources[place]
        if self.controls is None or self._over or source.stopped or source.state in OVER:
            return False
        self.controls.pause_source(source.tracks[0], paused)
        source.paused = paused
        return True

    def stop(self, place: int) -> bool:
        """End a source; whether that is possible."""
        source = self.sources[place]
        if self.controls is None or self._over or source.stopped or source.state in OVER:
            return False
        source.stopped = True
        self.controls.stop_source(source.tracks[0])
        return True

    # ---- messages, for the server's thread -------------------------------------------------------------------

    def collect(self, watched: bool) -> bool:
        """Make a message of what has come; whether there was anything. watched: somebody looks at pictures."""
        number, news, now = self.number + 1, False, time.monotonic()
        over = self._over  # before the rows: what comes with the end is told with it
        for track in self._tracks:
            news |= track.collect(number)
        if watched and now - self._pictured_at >= PICTURES_EVERY:
            self._pictured_at = now
            for source in self.sources:
                news |= source.picture.collect(number)
        for source in self.sources:
            news |= source.sound.collect(number)
            state = source.current(any(self._tracks[track].begun for track in source.tracks))
            if state != source.state:
                source.state, source.changed, news = state, number, True
        due = over or now - self._figured_at >= NUMBERS_EVERY
        if watched and self._statistics is not None and due and not self._told_over:
            self._figured_at = now
            counted = zip(self._tracks, self._statistics.sources, strict=True)
            figures = json.dumps([track.numbers(counts) for track, counts in counted])
            if figures != self._figures:
                self._figures, self._figured, news = figures, number, True
        if over and not self._told_over:
            self._told_over, news = number, True
        if news:
            self.number = number
        return news

    def hello(self) -> str:
        """What a page must know before the first message; JSON."""
        return json.dumps(
            {
                "version": __version__,
                "step": STEP,
                "sources": [{"name": source.name, "kind": source.kind} for source in self.sources],
                "tracks": [track.describe() for track in self._tracks],
            },
            separators=(",", ":"),
        )

    def since(self, number: int) -> str:
        """Everything that came after message `number`; JSON."""
        parts = [
            _member("rows", {place: track.since(number) for place, track in enumerate(self._tracks)}),
            _member("sound", {place: source.sound.since(number) for place, source in enumerate(self.sources)}),
            _member("pictures", {place: source.picture.since(number) for place, source in enumerate(self.sources)}),
            _member(
                "states",
                {
                    place: f'"{source.state}"' if source.changed > number or not number else None
                    for place, source in enumerate(self.sources)
                },
            ),
            f'"numbers":{self._figures}' if self._figured > number else "",
            '"over":true' if self._told_over > number else "",
        ]
        return "{" + ",".join(part for part in parts if part) + "}"


def _member(name: str, values: dict[int, str | None]) -> str:
    """A member of a JSON object: an object of the values that there are, which are JSON already."""
    there = [f'"{key}":{value}' for key, value in values.items() if value is not None]
    return f'"{name}":{{{",".join(there)}}}' if there else ""
