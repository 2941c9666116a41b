"""Opening a source with ffmpeg, and one clear line when that fails."""

from __future__ import annotations

import os
from collections.abc import Mapping
from errno import EIO
from pathlib import Path
from typing import Any, BinaryIO

from pipelines.errors import InputError, MissingDependencyError, SourceError
from pipelines.features.media.playlist import check_playlist

Source = str | Path | BinaryIO

DEVICE_FORMATS = frozenset({"v4l2", "video4linux2", "alsa", "pulse", "avfoundation", "dshow", "x11grab"})
MICROSECOND = 1e-6  # ffmpeg's unit of container times
OPEN_TIMEOUT, READ_TIMEOUT = 10.0, 20.0  # seconds, for network sources
# ffmpeg "plays" text files as terminal art; nobody who hands over notes.txt wants features of that.
REFUSED_FORMATS = frozenset({"tty", "bin", "xbin", "adf", "idf"})


def source_name(source: Source) -> str:
    """How the source is called in messages."""
    if isinstance(source, (str, Path)):
        return str(source)
    return str(getattr(source, "name", "<stream>"))


def is_url(source: Source) -> bool:
    return isinstance(source, str) and "://" in source and not source.startswith("file://")


def local_path(source: Source, format: str | None = None) -> Path | None:
    """The path of a source that is a file on this machine; None for URLs, pipes, devices and open files."""
    if not isinstance(source, (str, Path)) or is_url(source) or format in DEVICE_FORMATS:
        return None
    text = str(source).removeprefix("file://")
    return None if text == "-" or text.startswith(("pipe:", "fd:")) else Path(text)


def check_local(path: Path) -> None:
    """Raise for what can be said about a local file without decoding."""
    if path.is_dir():
        raise SourceError(str(path), "is a folder, not a media file")
    if not path.exists():
        raise SourceError(str(path), "no such file")
    if not os.access(path, os.R_OK):
        raise SourceError(str(path), "no permission to read it")
    if path.is_file() and path.stat().st_size == 0:
        raise SourceError(str(path), "the file is empty")


def open_container(source: Source, format: str | None, options: Mapping[str, str] | None) -> Any:
    """An open `av.container.InputContainer`; the caller closes it."""
    import av

    name = source_name(source)
    path = local_path(source, format)
    options = dict(options or {})
    if path is not None:
        check_local(path)
        if path.is_file():
            check_playlist(path)
    elif not isinstance(source, (str, Path)):
        options.setdefault("protocol_whitelist", "data")  # what is piped in names no files
    target = str(path) if path is not None else source
    timeout = (OPEN_TIMEOUT, READ_TIMEOUT) if is_url(source) else None
    try:
        container = av.open(target, format=format, options=options, timeout=timeout, metadata_errors="replace")
    except (av.error.FFmpegError, OSError, ValueError) as error:
        raise opening_error(name, format, error) from error
    if format is None and set(container.format.name.split(",")) & REFUSED_FORMATS:
        container.close()
        raise SourceError(name, "not audio or video that ffmpeg can read (it looks like text)")
    return container


def reason(error: BaseException) -> str:
    """What ffmpeg says, without its numbers."""
    import av

    if isinstance(error, av.error.ExitError):  # "Immediate exit requested": by our own time limit
        return "nothing came for too long"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def opening_error(name: str, format: str | None, error: BaseException) -> InputError | MissingDependencyError:
    import av

    if format in DEVICE_FORMATS:
        return MissingDependencyError(
            f"cannot open the device '{name}' ({format}): {reason(error)}; is it connected and not in use?"
        )
    if isinstance(error, ValueError) and format is not None:
        return SourceError(name, f"ffmpeg has no input format '{format}' here")
    if isinstance(error, (av.error.InvalidDataError, av.error.EOFError, av.error.DemuxerNotFoundError)):
        return SourceError(name, f"not audio or video that ffmpeg can read, or cut off ({reason(error)})")
    # ffmpeg's word for a host that nobody knows.
    unknown = (
        " (is the host's name right, and the network there?)"
        if "://" in name and getattr(error, "errno", None) == EIO
        else ""
    )
    return SourceError(name, f"cannot be opened: {reason(error)}{unknown}")


def select_streams(container: Any) -> tuple[Any | None, Any | None]:
    """The audio and the video stream to use: the default one, else the first. Cover pictures are no video."""
    import av

    still = av.stream.Disposition.attached_pic | av.stream.Disposition.timed_thumbnails
    video = [stream for stream in container.streams.video if not stream.disposition & still]
    video = [stream for stream in video if stream.codec_context is not None]
    audio = [stream for stream in container.streams.audio if stream.codec_context is not None]
    return _default(audio), _default(video)


def _default(streams: list[Any]) -> Any | None:
    import av

    marked = [stream for stream in streams if stream.disposition & av.stream.Disposition.default]
    return next(iter(marked or streams), None)


def stream_end(stream: Any) -> float | None:
    """The timestamp at which a stream ends, in seconds, as its header states it."""
    if not (stream.duration and stream.time_base):
        return _tagged_end(stream)
    start = stream.start_time if stream.start_time is not None else 0
    return float((start + stream.duration) * stream.time_base)


def stream_duration(stream: Any) -> float | None:
    """Seconds."""
    if stream.duration and stream.time_base:
        return float(stream.duration * stream.time_base)
    end = _tagged_end(stream)
    return end - float((stream.start_time or 0) * stream.time_base) if end is not None else None


def _tagged_end(stream: Any) -> float | None:
    """Matroska states the end of a stream in a tag, e.g. `00:00:02.023000000`."""
    hours, _, rest = stream.metadata.get("DURATION", "").partition(":")
    minutes, _, seconds = rest.partition(":")
    try:
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except ValueError:
        return None


def frame_rate(stream: Any) -> float | None:
    """Mean frames per second, as far as the header says."""
    rate = stream.average_rate or stream.guessed_rate
    return float(rate) if rate else None
