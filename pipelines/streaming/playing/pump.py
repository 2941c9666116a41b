"""The decoding stage: a thread that reads ahead of the features by a bounded number of pieces."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Event, Thread
from typing import Protocol

from pipelines.features.media import AudioBlock, MediaInfo, VideoFrame
from pipelines.features.media.joined_audio import in_larger_blocks
from pipelines.features.media.resampled_audio import at_rate
from pipelines.streaming.playing.ahead import Ahead

MediaItem = AudioBlock | VideoFrame
# Pieces that may wait. A decoded picture of full HD takes 3 MB, a block of sound 0.1 MB at most, joined ones some MB.
AUDIO_AHEAD, JOINED_AHEAD, VIDEO_AHEAD = 64, 4, 24
# Seconds that may wait, of what is not joined: many sources that begin together are not read for long before they play.
SECONDS_AHEAD = 2.0
PATIENCE = 0.1  # seconds between looks at whether the stream is to stop
SHORT_WAIT = 0.005  # seconds between looks at whether a thread has ended, which takes no longer as a rule
LONGEST_GOODBYE = 2.0  # seconds that closing waits for a thread which is stuck in a network or device


class OpenMedia(Protocol):
    """What decoding reads: a file, a pipe, raw sound."""

    @property
    def info(self) -> MediaInfo: ...

    def __iter__(self) -> Iterator[MediaItem]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Opened:
    """The source is open."""

    info: MediaInfo


@dataclass(frozen=True, eq=False)
class Arrived:
    """A piece of media, and when it came."""

    item: MediaItem
    at: float  # monotonic time


@dataclass(frozen=True)
class Over:
    """Nothing more comes. error: why, unless the source is simply at its end."""

    error: Exception | None


class MediaPump:
    """One pass over a source in a thread of its own."""

    def __init__(
        self,
        open_media: Callable[[Event], OpenMedia],
        video: bool,
        join_audio: bool,
        on_decoded: Callable[[float], None],
        on_message: Callable[[], None],
        audio_rate: int | None = None,
    ) -> None:
        """join_audio: small blocks of sound in one piece: for throughput, at the cost of delay.

        audio_rate: Hz that the sound is resampled to on the way; None: as it comes.
        on_message: called when there is something to `get`.
        """
        self._open = open_media
        self._on_message = on_message
        self._join_audio, self._audio_rate = join_audio, audio_rate
        self._on_decoded = on_decoded
        self._stop = Event()
        ahead = VIDEO_AHEAD if video else JOINED_AHEAD if join_audio else AUDIO_AHEAD
        self._ahead = Ahead[Opened | Arrived | Over](ahead, math.inf if join_audio else SECONDS_AHEAD)
        self._thread = Thread(target=self._run, name="cotrans decode", daemon=True)
        self._thread.start()

    def get(self) -> Opened | Arrived | Over | None:
        """The next message, if there is one."""
        return self._ahead.get()

    def leave(self) -> None:
        """Let the thread end, in the middle if need be."""
        self._stop.set()
        while self.get() is not None:  # it may be waiting for room
            pass

    def gone(self) -> Iterator[float]:
        """Turns until the thread has ended, or is stuck in a network or device."""
        deadline = time.monotonic() + LONGEST_GOODBYE
        while self._thread.is_alive() and time.monotonic() < deadline:
            yield time.monotonic() + SHORT_WAIT

    def _run(self) -> None:
        error: Exception | None = None
        media: OpenMedia | None = None
        try:
            media = self._open(self._stop)
            self._put(Opened(media.info))
            items: Iterable[MediaItem] = in_larger_blocks(media) if self._join_audio else media
            if self._audio_rate is not None:
                items = at_rate(items, self._audio_rate)
            begin = time.monotonic()
            for item in items:
                now = time.monotonic()
                self._on_decoded(now - begin)
                if not self._put(Arrived(item, now)):
                    break
                begin = time.monotonic()
        except Exception as problem:  # whatever it is, the thread that waits for media must hear of it
            error = problem
        finally:
            if media is not None:
                media.close()
        self._put(Over(error))

    def _put(self, message: Opened | Arrived | Over) -> bool:
        """Whether the message was taken; not when the stream is to stop."""
        seconds = 0.0
        if isinstance(message, Arrived) and isinstance(message.item, AudioBlock):
            seconds = message.item.end - message.item.time
        while not self._stop.is_set():
            if self._ahead.put(message, seconds, PATIENCE):
                self._on_message()
                return True
        return False
