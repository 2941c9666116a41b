"""Several extractors on one clock, fed by one decode. `extract` and `stream` both compute their rows here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import is_

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError, UsageError
from pipelines.features.audio.windowed import WindowedExtractor, rows_together
from pipelines.features.extractor import AudioExtractor, Extractor, Rows, VideoExtractor, hears, sees
from pipelines.features.media import AudioBlock, DamagedMediaError, MediaReader, Resampler, VideoFrame
from pipelines.features.row_clock import FrameChoice, FramePicker, RowClock
from pipelines.features.spec import Align, FeatureSpec

# Seconds of pictures before the newest of a row: six frames, as optical flow takes, of a source with three a second.
PAST = 2.0


class FeatureStream:
    """Push audio and frames as they come; get the joined rows that are ready, each once and in order.

    A row is ready when every extractor has it. Audio and video start together at media time `origin`. The audio
    extractors must have been built for the same `hop` and `align`. Which frame of its chunk a row takes is the
    option `frame` of a video extractor.

    `row`: the first row that is wanted. The sound is pushed from its start all the same, so that every sample is where
    it is in the whole; the work of the rows before is not done. Pictures may begin at `pictures_from`.
    """

    def __init__(
        self,
        extractors: Sequence[Extractor],
        hop: float,
        align: Align = "causal",
        origin: float = 0.0,
        row: int = 0,
    ) -> None:
        self.spec = FeatureSpec(tuple(extractor.spec for extractor in extractors), hop, align)
        self.origin = origin
        self.rows_given = row
        self._parts: list[_AudioPart | _VideoPart] = []
        for extractor in extractors:
            # An extractor that remembers earlier rows has to see them, though nobody wants them.
            begin = max(0, row - getattr(extractor, "reach", 0))
            if hears(extractor):
                self._parts.append(_AudioPart(extractor, begin, row - begin))
            elif sees(extractor):
                self._parts.append(_VideoPart(extractor, RowClock(hop, align), begin, row - begin))
            else:
                raise ConfigurationError(f"unknown kind of extractor '{extractor.spec.kind}'")
        self._audio = [part for part in self._parts if isinstance(part, _AudioPart)]
        self._video = [part for part in self._parts if isinstance(part, _VideoPart)]
        self._rate: int | None = None
        self._resamplers: dict[int, Resampler] = {}  # by the rate that extractors want
        self._ended = False

    @property
    def needs_audio(self) -> bool:
        return bool(self._audio)

    @property
    def needs_video(self) -> bool:
        return bool(self._video)

    @property
    def motion_rate(self) -> float | None:
        """Pictures a second by which an extractor knows motion; None: there is none that does."""
        return 1 / self.spec.hop if any(part.remembers for part in self._video) else None

    @property
    def audio_rate(self) -> int | None:
        """Hz that all of its audio extractors want; None: they want several, or there are none."""
        rates = {part.extractor.sample_rate for part in self._audio}
        return rates.pop() if len(rates) == 1 else None

    @property
    def pictures_from(self) -> float:
        """Media time of the first picture that some wanted row may be made of, or remember."""
        return max(0.0, min((part.pictures_from for part in self._video), default=0.0))

    def sound_due_after(self, seconds: float) -> float:
        """The first time after `seconds` at which the sound of a row is complete, both counted from `origin`."""
        row = max(0, int((seconds - self._sound_due(0)) / self.spec.hop))
        while (due := self._sound_due(row)) <= seconds:
            row += 1
        return due

    def _sound_due(self, row: int) -> float:
        return max(part.extractor.due(row) / part.extractor.sample_rate for part in self._audio)

    def skip_to(self, row: int) -> bool:
        """Leave out the rows before row number `row`, and the work for them; False where this cannot be done.

        The sound goes on: that of the rows between is pushed too, and costs next to nothing.
        """
        windowed = [part.extractor for part in self._parts if isinstance(part, _AudioPart)]
        if len(windowed) < len(self._parts) or row < self.rows_given:
            return False
        extractors = [one for one in windowed if isinstance(one, WindowedExtractor)]
        if len(extractors) < len(windowed):
            return False
        for extractor in extractors:
            extractor.skip_to(row)
        for part in self._parts:
            part.rows.clear()
        self.rows_given = row
        return True

    def push_audio(self, samples: NDArray[np.float32], rate: int) -> Rows:
        """(n,) mono samples at `rate` Hz, which must stay the same -> (rows, width)."""
        self.accept_audio(samples, rate)
        return rows_of_streams([self])[0]

    def accept_audio(self, samples: NDArray[np.float32], rate: int) -> None:
        """As `push_audio`; the rows come from `rows_of_streams`, which may compute them with those of other streams."""
        self._check_open()
        if self._rate is None:
            self._rate = rate
            self._resamplers = {
                wanted: Resampler(rate, wanted) for wanted in {part.extractor.sample_rate for part in self._audio}
            }
        elif rate != self._rate:
            raise UsageError(f"the audio of a stream cannot change from {self._rate} to {rate} Hz")
        for wanted, resampler in self._resamplers.items():
            self._hear(wanted, resampler.push(samples))

    def push_frame(
        self, frame: NDArray[np.uint8] | VideoFrame, time: float | None = None, duration: float | None = None
    ) -> Rows:
        """One picture -> (rows, width).

        A `VideoFrame` as `decode` yields it knows its time; an RGB array (height, width, 3) needs it. Without a
        `duration` the last frame of the stream is taken to last as long as the one before.
        """
        self._check_open()
        if not isinstance(frame, VideoFrame):
            if time is None:
                raise UsageError("a picture without a time: pass `time` in media seconds")
            image = np.array(frame)  # callers may reuse their buffer
            frame = VideoFrame(time, duration or 0.0, lambda: image)
        for part in self._video:
            part.push(frame, frame.time - self.origin)
        return self._drain()

    def flush(self) -> Rows:
        """End the stream -> the remaining (rows, width). Rows that not every extractor has are left out."""
        self._check_open()
        self._ended = True
        for wanted, resampler in self._resamplers.items():
            self._hear(wanted, resampler.flush())
        for part in self._parts:
            part.flush()
        return self._drain()

    def _check_open(self) -> None:
        if self._ended:
            raise UsageError("this feature stream has ended: build a new one")

    def _hear(self, rate: int, samples: NDArray[np.float32]) -> None:
        if len(samples):
            for part in self._audio:
                if part.extractor.sample_rate == rate:
                    part.hear(samples)

    def _drain(self) -> Rows:
        count = min(len(part.rows) for part in self._parts)
        if not count:
            return np.zeros((0, self.spec.width), np.float32)
        joined = np.concatenate([np.stack(part.rows[:count]) for part in self._parts], axis=1)
        for part in self._parts:
            del part.rows[:count]
        self.rows_given += count
        return joined


class _Part:
    """Rows of one extractor that wait for those of the others; the first `unwanted` were for its memory alone."""

    def __init__(self, unwanted: int) -> None:
        self.rows: list[NDArray[np.float32]] = []  # each (width,)
        self._unwanted = unwanted

    def give(self, rows: Iterable[NDArray[np.float32]]) -> None:
        for row in rows:
            if self._unwanted:
                self._unwanted -= 1
            else:
                self.rows.append(row)


class _AudioPart(_Part):
    def __init__(self, extractor: AudioExtractor, begin: int, unwanted: int) -> None:
        super().__init__(unwanted)
        self.extractor = extractor.fresh(begin) if begin else extractor

    def hear(self, samples: NDArray[np.float32]) -> None:
        """Rows of a windowed extractor wait for `rows_of_streams`, unless the piece is longer than it takes at once."""
        if isinstance(self.extractor, WindowedExtractor) and len(samples) <= self.extractor.longest_piece:
            self.extractor.accept(samples)
        else:
            self.give(self.extractor.push(samples))

    def flush(self) -> None:
        self.give(self.extractor.flush())


class _VideoPart(_Part):
    """Frames are looked at one row at a time, so that the numbers do not depend on how the frames came."""

    def __init__(self, extractor: VideoExtractor, clock: RowClock, begin: int, unwanted: int) -> None:
        super().__init__(unwanted)
        self.extractor = extractor
        frame: FrameChoice = "last" if extractor.spec.options.get("frame") == "last" else "centre"
        self._picker: FramePicker[VideoFrame] = FramePicker(clock, extractor.frames_per_row, frame, begin)
        self.pictures_from = clock.newest_frame(begin, extractor.frames_per_row > 1, frame) - PAST if begin else 0.0
        self.remembers = getattr(extractor, "remembers", False)
        self._last_time: float | None = None
        self._last_images: list[NDArray[np.uint8]] = []
        self._last_row: NDArray[np.float32] | None = None

    def push(self, frame: VideoFrame, time: float) -> None:
        duration = frame.duration
        if not duration and self._last_time is not None:
            duration = time - self._last_time
        self._last_time = time
        self._take(self._picker.push(frame, time, duration), frame)

    def flush(self) -> None:
        self._take(self._picker.flush(), None)

    def _take(self, rows: list[list[VideoFrame | None]], newest: VideoFrame | None) -> None:
        for frames in rows:
            shown = next((frame for frame in frames if frame is not None), newest)
            if shown is None:  # only black was ever due, and the stream ends
                continue
            images = [np.zeros_like(shown.image) if frame is None else frame.image for frame in frames]
            self.give([self._row(images)])

    def _row(self, images: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
        # A picture that stays on for several rows is looked at once, unless its extractor compares it with the last.
        same = len(images) == len(self._last_images) and all(map(is_, images, self._last_images))
        if self._last_row is None or not same or self.remembers:
            self._last_row = self.extractor.push(np.stack(same_size(images)))[0]
            self._last_images = images
        return self._last_row


def rows_of_streams(streams: Sequence[FeatureStream]) -> list[Rows]:
    """The rows (rows, width) that are ready in each of some streams of one factory, after sound that they accepted.

    A network that can computes the rows of all of them in one batch.
    """
    for parts in zip(*(stream._audio for stream in streams), strict=True):
        windowed = {part: part.extractor for part in parts if isinstance(part.extractor, WindowedExtractor)}
        if windowed:
            for part, rows in zip(windowed, rows_together(list(windowed.values())), strict=True):
                part.give(rows)
    return [stream._drain() for stream in streams]


def same_size(images: list[NDArray[np.uint8]]) -> list[NDArray[np.uint8]]:
    """Pictures of a stack at the newest one's size: a stream may change its size in the middle."""
    height, width, _ = images[-1].shape
    if all(image.shape == images[-1].shape for image in images):
        return images
    import cv2

    return [np.asarray(cv2.resize(image, (width, height)), np.uint8) for image in images]


def feature_rows(reader: MediaReader, stream: FeatureStream) -> Iterator[Rows]:
    """All rows of a source, some at a time. A damaged source gives its rows first and then raises."""
    damage: DamagedMediaError | None = None
    try:
        for item in reader:
            if isinstance(item, AudioBlock):
                rows = stream.push_audio(item.samples, item.rate)
            else:
                rows = stream.push_frame(item)
            if len(rows):
                yield rows
    except DamagedMediaError as error:
        damage = error
    rows = stream.flush()
    if len(rows):
        yield rows
    if damage is not None:
        raise damage
