"""Opening what a source names for one pass of decoding."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import TypeVar

from pipelines.errors import InputError, MissingDependencyError
from pipelines.features.media import MediaReader, MissingTrackError, decode
from pipelines.streaming.options import PlayOptions
from pipelines.streaming.predicting.model_choice import FOR_PICTURES, FOR_SOUND
from pipelines.streaming.sources.devices import check_device, device_target
from pipelines.streaming.sources.pcm import PcmReader
from pipelines.streaming.sources.source import StreamSource
from pipelines.streaming.sources.standard_input import PipedMedia, standard_input

Media = TypeVar("Media")

# What a source without a track can still be given to.
OTHERS = {
    "audio": f" (--model {FOR_PICTURES} watches pictures)",
    "video": f" (--model {FOR_SOUND} listens to sound)",
}
NETWORK_OPTIONS = {
    # Sound that is lost on the way cannot be asked for again over UDP.
    "rtsp": {"rtsp_transport": "tcp"},
    "rtsps": {"rtsp_transport": "tcp"},
}


def open_media(
    source: StreamSource, audio: bool, video: bool, play: PlayOptions, stop: Event, in_step: bool = True
) -> MediaReader | PipedMedia | PcmReader:
    """Open a source; a track that the features need and the source lacks is an error at once.

    in_step: where both tracks are wanted, they end together.
    """
    wanted = "audio" if audio and not video else "video" if video and not audio else "audio and video"
    if source.kind == "pipe":
        if play.pcm is None:
            return _with_tracks(wanted, lambda: PipedMedia(audio, video))
        if video:
            raise InputError(f"-: raw sound has no pictures, but the model's features need {wanted}")
        return PcmReader(standard_input(), play.pcm, stop)
    if source.device:
        check_device(source, audio, video)
        target, format = device_target(source)
        try:
            return decode(target, audio=audio, video=video, format=format, live=True, in_step=in_step)
        except MissingDependencyError as error:
            raise MissingDependencyError(f"{source.name}: {error}") from error
    options = NETWORK_OPTIONS.get(source.target.partition("://")[0])
    live = source.kind == "url" and not play.fast
    return _with_tracks(
        wanted,
        lambda: decode(
            source.target,
            audio=audio,
            video=video,
            start=play.start,
            duration=play.duration,
            options=options,
            live=live,
            in_step=in_step,
        ),
    )


def _with_tracks(wanted: str, opened: Callable[[], Media]) -> Media:
    """Open a source; where it lacks a track, say what it is needed for."""
    try:
        return opened()
    except MissingTrackError as error:
        other = OTHERS[error.track] if wanted == error.track else ""
        raise MissingTrackError(
            error.source, error.track, f", but the model's features need {wanted}{other}"
        ) from error
