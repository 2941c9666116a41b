"""What a media source holds, without decoding more than its first picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.features.media.container import (
    MICROSECOND,
    Source,
    frame_rate,
    local_path,
    open_container,
    select_streams,
    source_name,
    stream_duration,
)
from pipelines.features.media.info import AudioTrack, MediaInfo, VideoTrack
from pipelines.features.media.picture import UPRIGHT, display_matrix, rotation
from pipelines.features.media.plain_audio import PlainAudio

LONGEST = 30 * 24 * 3600.0  # seconds that are believed of a header
SPARSEST = 50.0  # bytes per second; a header that states still more seconds is damaged
PICTURE_ATTEMPTS = 50  # packets looked at for the first picture, which knows the rotation


def probe(source: Source, *, format: str | None = None, options: Mapping[str, str] | None = None) -> MediaInfo:
    """Tracks, rates, sizes and durations. Raises InputError for what is no media file."""
    path = local_path(source, format)
    if path is not None and format is None and not options:
        plain = PlainAudio.open(path)
        if plain is not None:
            plain.close()
            return plain.info
    container = open_container(source, format, options)
    try:
        _, video = select_streams(container)
        degrees = _rotation(container, video) if video is not None else 0
        return describe(source, container, degrees)
    finally:
        container.close()


def describe(source: Source, container: Any, degrees: int = 0) -> MediaInfo:
    """What the header of an open container says; `degrees` is known from the first picture."""
    audio, video = select_streams(container)
    path = local_path(source)
    size = path.stat().st_size if path is not None and path.is_file() else None
    return MediaInfo(
        source=source_name(source),
        format=container.format.name,
        duration=_duration(container, size),
        audio=_audio_track(audio) if audio is not None else None,
        video=_video_track(video, degrees) if video is not None else None,
        size=size,
    )


def _duration(container: Any, size: int | None) -> float | None:
    """Seconds as the container states them; None where it does not, or cannot mean it."""
    seconds = (container.duration or 0) * MICROSECOND
    longest = LONGEST if size is None else min(LONGEST, max(60.0, size / SPARSEST))
    return seconds if 0 < seconds <= longest else None


def _audio_track(stream: Any) -> AudioTrack:
    context = stream.codec_context
    return AudioTrack(
        codec=context.name,
        rate=context.sample_rate or 0,
        channels=context.channels or 0,
        layout=context.layout.name,
        duration=stream_duration(stream),
    )


def _video_track(stream: Any, degrees: int) -> VideoTrack:
    context = stream.codec_context
    size = (context.width or 0, context.height or 0)
    width, height = size if degrees % 180 == 0 else size[::-1]
    aspect = stream.sample_aspect_ratio or context.sample_aspect_ratio
    pixel = float(aspect) if aspect and aspect > 0 else 1.0
    if degrees % 180:
        pixel = 1 / pixel
    return VideoTrack(context.name, width, height, frame_rate(stream), degrees, stream_duration(stream), pixel)


def _rotation(container: Any, stream: Any) -> int:
    import av

    matrix = UPRIGHT
    try:
        for count, packet in enumerate(container.demux(stream)):
            if count > PICTURE_ATTEMPTS:
                break
            frames = packet.decode()
            if frames:
                matrix = display_matrix(frames[0], stream.codec_context.name)
                break
    except av.error.FFmpegError:
        pass  # damage is for `decode` to report; the header is what was asked for
    return rotation(matrix)
