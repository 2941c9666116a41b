"""Finding media files and telling damaged ones from good ones without decoding them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pipelines.errors import InputError
from pipelines.features.extraction.sources import MEDIA_SUFFIXES

# What libsndfile reads: its header check is a hundred times faster than opening the file with ffmpeg.
PLAIN_SUFFIXES = frozenset({".wav", ".au", ".ogg", ".flac", ".mp3", ".aif", ".aiff"})


def is_media(path: Path) -> bool:
    return path.suffix.lower() in MEDIA_SUFFIXES and not path.name.startswith(".")


def media_duration(path: Path) -> float | None:
    """Seconds of a media file (None where only decoding would tell); a damaged file is an error with the reason."""
    if path.suffix.lower() in PLAIN_SUFFIXES:
        import soundfile

        try:
            info = soundfile.info(os.fsencode(path))
        except (soundfile.SoundFileError, OSError):
            pass  # ffmpeg reads some files that libsndfile does not, and says more when it cannot
        else:
            if info.frames <= 0:
                raise InputError(f"{path}: it has no samples")
            return float(info.frames) / float(info.samplerate)
    from pipelines.features.media import probe

    return probe(path).duration


def check_media(paths: Iterable[Path], shortest: float = 0.0) -> tuple[dict[Path, float | None], list[str]]:
    """Durations of the good files, and one line for each damaged one."""
    good: dict[Path, float | None] = {}
    problems: list[str] = []
    for path in paths:
        try:
            duration = media_duration(path)
        except InputError as error:
            problems.append(f"damaged, left out: {error}")
            continue
        if duration is not None and duration < shortest:
            problems.append(f"too short, left out: {path} ({duration:.2f} s, at least {shortest:g} s are needed)")
            continue
        good[path] = duration
    return good, problems


def by_name(paths: Iterable[Path], names: Iterable[str]) -> dict[str, Path]:
    """The file for each of the names (stems) that has one."""
    wanted = set(names)
    return {path.stem: path for path in sorted(paths) if path.stem in wanted}
