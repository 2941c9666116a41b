"""The video with labels burnt in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError
from pipelines.features.media import AudioBlock, DamagedMediaError, MissingTrackError, VideoFrame, decode, probe
from pipelines.files import temporary_file, unwritable, use_common_mode
from pipelines.streaming.messages import SourceEnded
from pipelines.streaming.options import PlayOptions
from pipelines.streaming.output.label_panel import LabelPanel
from pipelines.streaming.predicting.prediction import Prediction

CLOCK = 90_000  # ticks per second
SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".ts", ".flv")  # containers that take H.264
BT601, LIMITED = 6, 1  # ffmpeg's numbers for the colours of a picture and their range
QUALITY = {"crf": "20", "preset": "veryfast"}


class Overlay:
    """Reads the video again and draws on each frame what was known at its time: the newest prediction so far."""

    def __init__(self, source: Path, target: Path, play: PlayOptions, class_names: Sequence[str]) -> None:
        import av

        self._target, self._class_names = target, class_names
        video = probe(source).video  # with the rotation, which the first picture knows
        if video is None:
            raise MissingTrackError(str(source), "video", ": --overlay draws on a video")
        self._pixel_aspect = video.pixel_aspect
        self._start = play.start
        self._reader = decode(source, audio=False, video=True, start=play.start, duration=play.duration)
        self._frames: Iterator[AudioBlock | VideoFrame] = iter(self._reader)
        self._next: VideoFrame | None = None  # read, and not yet written
        self._panel: LabelPanel | None = None
        self._prediction: Prediction | None = None
        self._failed = False
        self._end = 0.0  # media seconds since the start up to which the video goes
        target.parent.mkdir(parents=True, exist_ok=True)
        self._temporary, self._lock = temporary_file(target.parent, f"{target.stem}.part-", target.suffix)
        name = str(self._temporary)
        try:
            self._container = av.open(name, "w")
            self._stream = self._container.add_stream("libx264", rate=self._rate(), options=QUALITY)
            self._sound = SoundCopy(source, self._container, play)
        except (av.error.FFmpegError, ValueError, OSError) as error:
            self._temporary.unlink(missing_ok=True)
            raise InputError(f"cannot write the video {target}: {error}") from error
        except BaseException:
            self._temporary.unlink(missing_ok=True)
            raise

    def write(self, events: Sequence[Prediction | SourceEnded]) -> None:
        with self._writing():
            for event in events:
                if isinstance(event, Prediction):
                    self._draw_before(event.time)
                    self._prediction = event
                else:
                    self._draw_before(float("inf"))
                    self._end = float("inf")

    def close(self) -> None:
        """Give the file its name. After an interruption the video ends with the last prediction."""
        self._reader.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._failed:
            return
        with self._writing():
            if self._panel is not None:
                for packet in self._stream.encode(None):
                    self._container.mux(packet)
                self._sound.copy_before(self._end)
            self._sound.close()
            self._container.close()
            if self._panel is None:  # not a single frame was drawn
                self._temporary.unlink(missing_ok=True)
                return
            with self._temporary.open("rb+") as file:
                os.fsync(file.fileno())
            use_common_mode(self._temporary)
            self._temporary.replace(self._target)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """What goes wrong is said of the file that the user named, and nothing half done is left."""
        try:
            yield
        except OSError as error:  # ffmpeg's errors are of this kind too
            self._failed = True
            self._temporary.unlink(missing_ok=True)
            raise InputError(f"--overlay: {unwritable(self._target, error)}") from error
        except BaseException:
            self._failed = True
            self._temporary.unlink(missing_ok=True)
            raise

    def state(self) -> None:
        """Nothing that could be continued."""

    def _rate(self) -> Fraction:
        video = self._reader.info.video
        return Fraction(video.rate if video and video.rate else 25.0).limit_denominator(1001)

    def _draw_before(self, time: float) -> None:
        """Write the frames that are shown before a media time."""
        while (frame := self._peek()) is not None and frame.time < time:
            self._next = None
            self._write(frame)

    def _peek(self) -> VideoFrame | None:
        if self._next is None:
            try:
                item = next(self._frames, None)
            except DamagedMediaError:
                item = None  # the stream itself reports it
            self._next = item if isinstance(item, VideoFrame) else None
        return self._next

    def _write(self, frame: VideoFrame) -> None:
        import av

        image = even(frame.image)
        height, width, _ = image.shape
        if self._panel is None:
            self._panel = LabelPanel(width, height, self._class_names)
            self._stream.width, self._stream.height = width, height
            self._stream.pix_fmt = "yuv420p"
            self._stream.codec_context.sample_aspect_ratio = Fraction(self._pixel_aspect).limit_denominator(1000)
            # How ffmpeg makes it of red, green and blue, where a player would guess by the size.
            self._stream.codec_context.colorspace, self._stream.codec_context.color_range = BT601, LIMITED
            self._stream.codec_context.time_base = Fraction(1, CLOCK)
        if self._prediction is not None:
            image = self._panel.draw(image, self._prediction)
        picture: Any = av.VideoFrame.from_ndarray(image, format="rgb24")
        picture.pts = round((frame.time - self._start) * CLOCK)
        picture.time_base = Fraction(1, CLOCK)
        self._end = frame.end - self._start
        self._sound.copy_before(frame.time - self._start)
        for packet in self._stream.encode(picture):
            self._container.mux(packet)


class SoundCopy:
    """The sound of the source, packet by packet as it is; silent where it has none, or where only a part is played."""

    def __init__(self, source: Path, container: Any, play: PlayOptions) -> None:
        import av

        self._input = av.open(str(source), metadata_errors="replace")
        self._packets: Iterator[Any] = iter(())
        self._held: Any = None
        tracks = self._input.streams.audio
        if tracks and not play.start and play.duration is None:
            try:
                self._output = container.add_stream_from_template(tracks[0])
            except (av.error.FFmpegError, ValueError):
                return  # a codec that the target's container does not take
            self._origin = (self._input.start_time or 0) * 1e-6
            self._packets = self._input.demux(tracks[0])
        self._container = container

    def copy_before(self, time: float) -> None:
        """Write the packets that begin before a time."""
        while (packet := self._peek()) is not None:
            begin = float(packet.pts * packet.time_base) - self._origin
            if begin >= time:
                return
            self._held = None
            shift = round(self._origin / packet.time_base)
            packet.pts -= shift
            packet.dts = packet.dts - shift if packet.dts is not None else packet.pts
            packet.stream = self._output
            self._container.mux(packet)

    def close(self) -> None:
        self._input.close()

    def _peek(self) -> Any:
        import av

        while self._held is None:
            try:
                packet = next(self._packets, None)
            except av.error.FFmpegError:
                return None
            if packet is None:
                return None
            if packet.pts is not None and packet.size:
                self._held = packet
        return self._held


def even(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Without the last row or column where the number is odd: half-size colour needs even sizes."""
    height, width, _ = image.shape
    return np.ascontiguousarray(image[: height - height % 2, : width - width % 2])
