"""Real media files, made on the spot with PyAV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class VideoTrackOptions:
    codec: str = "libx264"
    size: tuple[int, int] = (64, 48)  # width, height
    pixels: str = "yuv420p"
    times: Sequence[float] = field(default_factory=lambda: [index / 25 for index in range(50)])
    picture: Callable[[float, int, int], NDArray[np.uint8]] | None = None
    rotation: int | None = None
    matrix: Sequence[int] | None = None
    clock: int = 90_000  # ticks per second


@dataclass(frozen=True)
class AudioTrackOptions:
    codec: str = "aac"
    rate: int = 44_100
    layout: str = "stereo"
    start: float = 0.0  # seconds
    samples: NDArray[np.float32] | None = None  # (channels, n); None: two seconds of a tone
    format: str = "fltp"


def tone(seconds: float, rate: int, hertz: float = 440.0) -> NDArray[np.float32]:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def quadrants(time: float, width: int, height: int) -> NDArray[np.uint8]:
    """Red, green, blue and white corners; the time shows as a grey bar of growing width in the middle row."""
    image = np.zeros((height, width, 3), np.uint8)
    top, left = height // 2, width // 2
    image[:top, :left] = (255, 0, 0)
    image[:top, left:] = (0, 255, 0)
    image[top:, :left] = (0, 0, 255)
    image[top:, left:] = (255, 255, 255)
    return image


def brightness(time: float, width: int, height: int) -> NDArray[np.uint8]:
    """Grey that grows with time (100 levels per second), with a moving stripe so that there is motion."""
    image = np.full((height, width, 3), int(time * 100) % 256, np.uint8)
    left = int(time * 40) % max(1, width - 8)
    image[height // 4 : height // 2, left : left + 8] = 255 - image[0, 0, 0]
    return image


def write_media(
    path: Path,
    video: VideoTrackOptions | None = None,
    audio: AudioTrackOptions | None = None,
    options: dict[str, str] | None = None,
    format: str | None = None,
) -> Path:
    """Write a file with the given tracks, interleaved by time."""
    with av.open(str(path), "w", format=format, options=options or {}) as container:
        packets = []
        if video is not None:
            stream = container.add_stream(video.codec, rate=25)
            stream.width, stream.height = video.size
            stream.pix_fmt = video.pixels
            stream.codec_context.time_base = Fraction(1, video.clock)
            if video.rotation is not None:
                stream.set_display_rotation(video.rotation)
            if video.matrix is not None:
                stream.set_display_matrix(video.matrix)
            packets.append((stream, _pictures(video)))
        if audio is not None:
            sound = container.add_stream(audio.codec, rate=audio.rate, layout=audio.layout)
            packets.append((sound, _sound(audio, sound.codec_context.frame_size)))
        queues = [(stream, iter(frames)) for stream, frames in packets]
        heads = [next(frames, None) for _, frames in queues]
        while any(head is not None for head in heads):
            index = min((i for i, head in enumerate(heads) if head is not None), key=lambda i: heads[i][0])
            stream, frames = queues[index]
            container.mux(stream.encode(heads[index][1]))
            heads[index] = next(frames, None)
        for stream, _ in queues:
            container.mux(stream.encode(None))
    return path


def write_song_with_cover(path: Path) -> Path:
    """An .mp3 file of a second, whose only picture is its cover."""
    with av.open(str(path), "w") as container:
        audio = container.add_stream("mp3", rate=44_100, layout="mono")
        cover = container.add_stream("png", rate=1)
        cover.width, cover.height, cover.pix_fmt = 16, 16, "rgb24"
        cover.disposition = av.stream.Disposition.attached_pic
        for packet in cover.encode(av.VideoFrame(16, 16, "rgb24")):
            container.mux(packet)
        container.mux(cover.encode(None))
        for begin in range(0, 44_100, 1152):
            piece = tone(1.1, 44_100)[begin : begin + 1152]
            frame = av.AudioFrame.from_ndarray(piece[None], format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 44_100, begin
            container.mux(audio.encode(frame))
        container.mux(audio.encode(None))
    return path


def _pictures(options: VideoTrackOptions) -> list[tuple[float, av.VideoFrame]]:
    frames = []
    for time in options.times:
        image = (options.picture or quadrants)(time, *options.size)
        frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=options.pixels)
        frame.pts, frame.time_base = round(time * options.clock), Fraction(1, options.clock)
        frames.append((time, frame))
    return frames


def _sound(options: AudioTrackOptions, frame_size: int) -> list[tuple[float, av.AudioFrame]]:
    channels = av.AudioLayout(options.layout).nb_channels
    samples = options.samples
    if samples is None:
        samples = np.repeat(tone(2.0, options.rate)[None], channels, axis=0)
    block = frame_size or 1024
    frames = []
    for begin in range(0, samples.shape[1], block):
        piece = np.ascontiguousarray(samples[:, begin : begin + block])
        if options.format == "s16":
            piece = np.rint(piece * 32767).astype(np.int16).T.reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(piece, format=options.format, layout=options.layout)
        frame.sample_rate = options.rate
        frame.pts = begin + round(options.start * options.rate)
        frame.time_base = Fraction(1, options.rate)
        frames.append((options.start + begin / options.rate, frame))
    return frames
