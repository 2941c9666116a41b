"""Which features fit media when nobody has named any: by what the files hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import InputError
from pipelines.features.media import probe
from pipelines.features.video import DEFAULT_VIDEO_EXTRACTOR

DEFAULT_AUDIO_EXTRACTOR = "musicnn"  # its weights ship with cotrans


@dataclass(frozen=True)
class Tracks:
    """How many of some media files have sound and pictures. Files that cannot be opened count nowhere."""

    files: int
    with_sound: int
    with_pictures: int

    @property
    def features(self) -> str:
        """Sound is heard where any file has it; pictures are watched where there is nothing to hear."""
        silent = self.with_pictures and not self.with_sound
        return DEFAULT_VIDEO_EXTRACTOR if silent else DEFAULT_AUDIO_EXTRACTOR

    @property
    def reason(self) -> str:
        """Why these features, in a few words."""
        if self.with_sound:
            everywhere = self.with_sound == self.files
            return "sound" if everywhere else f"sound in {self.with_sound} of {self.files} files"
        return "pictures and no sound" if self.with_pictures else "no file could be opened"


def tracks_of(paths: Iterable[Path], until_sound: bool = False) -> Tracks:
    """What the files hold. Cover art is no picture of a video. until_sound: look no further than the first sound."""
    files = with_sound = with_pictures = 0
    for path in paths:
        try:
            info = probe(path)
        except InputError:
            continue  # whoever extracts says what is wrong with it
        files += 1
        with_sound += info.audio is not None
        with_pictures += info.video is not None
        if until_sound and with_sound:
            break
    return Tracks(files, with_sound, with_pictures)
