"""One decode of a source for several streams, each of which runs a model of its own."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread

from pipelines.errors import InputError
from pipelines.features.media import AudioBlock, MediaInfo, VideoFrame
from pipelines.streaming.options import PlayOptions
from pipelines.streaming.playing.pump import OpenMedia
from pipelines.streaming.sources.media_source import open_media
from pipelines.streaming.sources.source import StreamSource

AHEAD = 32  # pieces by which one stream may be ahead of another
PATIENCE = 0.1  # seconds between looks at whether anybody still wants the rest
MediaItem = AudioBlock | VideoFrame


@dataclass(frozen=True)
class Tracks:
    """What the features of a stream are made of."""

    audio: bool
    video: bool


@dataclass(frozen=True)
class _Over:
    error: Exception | None


class SharedMedia:
    """Opens every pass over a source once. Streams are numbered by their place in `wanted`."""

    def __init__(self, wanted: Sequence[Tracks]) -> None:
        self.decodes = 0  # how often a source was opened for all streams together
        self._wanted = tuple(wanted)
        self._passes: dict[tuple[int, int], _Pass] = {}  # by source and turn
        self._turns: dict[tuple[int, int], int] = {}  # how often a stream has opened a source
        self._left: set[tuple[int, int]] = set()  # streams that are done with a source
        self._lock = Lock()

    def open(
        self, stream: int, source: StreamSource, audio: bool, video: bool, play: PlayOptions, stop: Event
    ) -> OpenMedia:
        """As `open_media`, for one of the streams, which must pass the very object of a source that the others do."""
        with self._lock:
            turn = self._turns.get((stream, id(source)), 0)
            self._turns[stream, id(source)] = turn + 1
            shared = self._passes.get((id(source), turn))
            if shared is None:
                self._forget(source)
                shared = self._passes[id(source), turn] = _Pass(self._wanted, source, play)
                self.decodes += shared.media is not None
                for other in range(len(self._wanted)):
                    if (other, id(source)) in self._left:
                        shared.readers[other].close()
        if shared.error is not None and not (source.repeatable or source.kind == "url"):
            raise shared.error  # what has been read of it cannot be read again
        if shared.error is not None:
            # It lacks a track that some stream needs: each opens what it needs itself, and hears what is wrong.
            return open_media(source, audio, video, play, stop)
        return shared.readers[stream]

    def _forget(self, source: StreamSource) -> None:
        """Let passes go that every stream has gone through: a source may play again and again for days."""
        key = id(source)
        reading = [stream for stream in range(len(self._wanted)) if (stream, key) not in self._left]
        oldest = min((self._turns.get((stream, key), 0) for stream in reading), default=0) - 1
        for turn in [turn for number, turn in self._passes if number == key and turn < oldest]:
            del self._passes[key, turn]

    def leave(self, stream: int, source: StreamSource) -> None:
        """A stream has no more use for a source: nobody waits for it."""
        with self._lock:
            self._left.add((stream, id(source)))
            for (key, _), shared in self._passes.items():
                if key == id(source):
                    shared.readers[stream].close()


class _Pass:
    """One decode, in a thread of its own, into a bounded queue for each stream."""

    def __init__(self, wanted: tuple[Tracks, ...], source: StreamSource, play: PlayOptions) -> None:
        self.readers = [_Reader(tracks) for tracks in wanted]
        self.media: OpenMedia | None = None
        self.error: InputError | None = None  # why the streams cannot share it
        self._stop = Event()
        audio, video = any(tracks.audio for tracks in wanted), any(tracks.video for tracks in wanted)
        in_step = any(tracks.audio and tracks.video for tracks in wanted)
        try:
            self.media = open_media(source, audio, video, play, self._stop, in_step)
        except InputError as error:
            self.error = error
            return
        for reader in self.readers:
            reader.info = self.media.info
        Thread(target=self._run, name="cotrans shared decode", daemon=True).start()

    def _run(self) -> None:
        assert self.media is not None
        error: Exception | None = None
        try:
            for item in self.media:
                for reader in self.readers:
                    if reader.wants(item):
                        reader.put(item)
                if all(reader.closed for reader in self.readers):
                    break
        except Exception as problem:  # every stream must hear of it
            error = problem
        finally:
            self._stop.set()
            self.media.close()
        for reader in self.readers:
            reader.put(_Over(error))


class _Reader:
    """What one stream reads."""

    info: MediaInfo

    def __init__(self, tracks: Tracks) -> None:
        self.tracks = tracks
        self._queue: queue.Queue[MediaItem | _Over] = queue.Queue(AHEAD)
        self._closed = Event()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def wants(self, item: MediaItem) -> bool:
        return self.tracks.audio if isinstance(item, AudioBlock) else self.tracks.video

    def put(self, item: MediaItem | _Over) -> None:
        while not self.closed:
            try:
                self._queue.put(item, timeout=PATIENCE)
                return
            except queue.Full:
                continue

    def __iter__(self) -> Iterator[MediaItem]:
        while not self.closed:
            try:
                item = self._queue.get(timeout=PATIENCE)
            except queue.Empty:
                continue
            if isinstance(item, _Over):
                if item.error is not None:
                    raise item.error
                return
            yield item

    def close(self) -> None:
        self._closed.set()
