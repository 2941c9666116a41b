"""The same scene through another camera: what a model of pictures should not depend on.

Few clips show few cameras, and a model learns the cameras too. So a copy of a clip is a little brighter or darker, with
other contrast and colours, seen from a little nearer, not quite straight and off the middle, blurred or grainy, a
little faster or slower, and encoded anew. It is never mirrored: left and right may be classes. Pictures are read,
changed and written one by one.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.mixing.changed_sound import RATE, changed
from pipelines.datasets.mixing.sound_files import Samples, read_sound
from pipelines.features.media import VideoFrame, decode

Picture = NDArray[np.uint8]  # (height, width, 3) RGB

SUFFIX = ".mp4"
SIDE = 320  # pixels of the shorter side at most: networks look at fewer
SPEED = 0.06  # largest relative change
ZOOM = 1.2  # at most: what is seen is so many times smaller, anywhere in the picture
TURN = 3.0  # degrees at most
BRIGHTNESS = 0.12  # of the full scale, at most
CONTRAST, GAMMA, SATURATION = (0.75, 1.3), (0.8, 1.25), (0.6, 1.4)
TINT = 0.08  # of the level of red, green and blue, at most
BLUR = 1.2  # pixels at most, in a picture of SIDE; one clip in three
GRAIN = 8.0  # levels at most; one clip in three
QUALITIES = {"libx264": ("crf", 20, 36), "mpeg4": ("qscale", 3, 14)}  # an option of ffmpeg's encoders, best and worst
CLOCK = 90_000  # ticks a second


class Camera:
    """A change that is the same for all pictures of a clip, but for the grain."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._zoom = generator.uniform(1.0, ZOOM)
        self._shift = generator.uniform(-0.5, 0.5, 2) * (1 - 1 / self._zoom)
        self._turn = generator.uniform(-TURN, TURN)
        levels = np.linspace(0.0, 1.0, 256) ** generator.uniform(*GAMMA)
        levels = (levels - 0.5) * generator.uniform(*CONTRAST) + 0.5 + generator.uniform(-BRIGHTNESS, BRIGHTNESS)
        tinted = levels[:, None] * generator.uniform(1 - TINT, 1 + TINT, 3)
        self._levels = np.clip(np.rint(255 * tinted), 0, 255).astype(np.uint8)[None]  # (1, 256, 3)
        grey = np.tile([0.299, 0.587, 0.114], (3, 1))
        self._colours = grey + generator.uniform(*SATURATION) * (np.eye(3) - grey)
        flaw, strength = generator.random(), generator.uniform(0.2, 1.0)
        self._blur = BLUR * strength if flaw < 1 / 3 else 0.0
        self._grain = GRAIN * strength if flaw > 2 / 3 else 0.0

    def picture(self, image: Picture) -> Picture:
        """(height, width, 3) to (height, width, 3) of even numbers, the shorter at most SIDE."""
        height, width = image.shape[:2]
        scale = min(1.0, SIDE / min(height, width))
        width, height = (max(2, 2 * round(scale * length / 2)) for length in (width, height))
        if scale < 1.0:
            image = np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
        # From a place in the copy to the place in the picture that is seen there.
        seen = cv2.getRotationMatrix2D((width / 2, height / 2), self._turn, 1 / self._zoom)
        seen = seen + np.pad((self._shift * (width, height))[:, None], ((0, 0), (2, 0)))
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        changed = cv2.warpAffine(image, seen, (width, height), flags=flags, borderMode=cv2.BORDER_REFLECT_101)
        changed = cv2.transform(cv2.LUT(changed, self._levels), self._colours)
        if self._blur:
            changed = cv2.GaussianBlur(changed, (0, 0), max(0.2, self._blur * min(height, width) / SIDE))
        if self._grain:
            grain = self._generator.normal(0.0, self._grain, (height, width, 1)).astype(np.float32)
            changed = np.clip(np.rint(changed + grain), 0, 255)
        return np.ascontiguousarray(changed, np.uint8)


def copy_video(source: Path, target: Path, generator: np.random.Generator, sound: bool = False) -> None:
    """Write a changed copy of a clip's pictures; with `sound`, of its sound too, which stays in step."""
    import av

    speed = float(generator.uniform(1 - SPEED, 1 + SPEED))
    camera = Camera(generator)
    encoder = sorted(QUALITIES)[int(generator.integers(len(QUALITIES)))]
    option, best, worst = QUALITIES[encoder]
    quality = {option: str(int(generator.integers(best, worst + 1)))}
    samples = changed(read_sound(source, RATE), generator, speed) if sound else None
    with av.open(str(target), "w") as container, decode(source, audio=False, video=True) as reader:
        writer: VideoWriter | None = None
        for frame in reader:
            assert isinstance(frame, VideoFrame)
            picture = camera.picture(frame.image)
            if writer is None:
                writer = VideoWriter(container, encoder, quality, picture.shape, samples)
            writer.write(picture, frame.time / speed, frame.duration / speed)
        if writer is not None:
            writer.close()


class VideoWriter:
    """Pictures with their times into a container of PyAV, and the sound that belongs to them, in step."""

    def __init__(
        self, container: Any, encoder: str, options: dict[str, str], shape: tuple[int, ...], samples: Samples | None
    ) -> None:
        import av

        self._container, self._samples, self._heard = container, samples, 0
        stream = container.add_stream(encoder, rate=30, options=_options(encoder, options))
        assert isinstance(stream, av.VideoStream)
        stream.height, stream.width = shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1  # the same file on every machine; clips are copied side by side
        stream.codec_context.time_base = stream.time_base = Fraction(1, CLOCK)
        if encoder == "mpeg4":
            stream.codec_context.time_base = Fraction(1, 1000)  # it has 16 bits for it
        self._stream, self._tick = stream, stream.codec_context.time_base
        self._durations: dict[int, int] = {}
        self._last = -1
        self._track: Any = None
        if samples is not None:
            self._track = container.add_stream("aac", rate=RATE, layout="mono")
            self._track.bit_rate = 32_000

    def write(self, picture: Picture, time: float, duration: float) -> None:
        """The next picture, which is shown from `time` on. All have the size of the first."""
        import av

        size = (self._stream.width, self._stream.height)
        if picture.shape[1::-1] != size:
            picture = np.asarray(cv2.resize(picture, size), np.uint8)
        frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
        self._last = frame.pts = max(self._last + 1, round(time / self._tick))
        frame.time_base = self._tick
        self._durations[frame.pts] = round(duration / self._tick)
        self._sound_until(time)
        self._mux(self._stream.encode(frame))

    def close(self) -> None:
        self._mux(self._stream.encode(None))
        if self._track is not None:
            self._sound_until(float("inf"))
            self._container.mux(self._track.encode(None))

    def _mux(self, packets: Any) -> None:
        for packet in packets:
            packet.duration = self._durations.pop(packet.pts, 0)  # which of the last one nothing else says
            self._container.mux(packet)

    def _sound_until(self, time: float) -> None:
        import av

        if self._track is None or self._samples is None:
            return
        end = int(min(time * RATE, len(self._samples)))
        if end > self._heard:
            part = np.rint(self._samples[self._heard : end] * 32767).astype(np.int16)[None]
            frame = av.AudioFrame.from_ndarray(part, format="s16", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = RATE, self._heard, Fraction(1, RATE)
            self._heard = end
            self._container.mux(self._track.encode(frame))


def _options(encoder: str, quality: dict[str, str]) -> dict[str, str]:
    """mpeg4 takes its quality as a flag and a number of ffmpeg's own scale."""
    if encoder == "mpeg4":
        return {"flags": "+qscale", "global_quality": str(118 * int(quality["qscale"]))}
    return {**quality, "preset": "veryfast"}
