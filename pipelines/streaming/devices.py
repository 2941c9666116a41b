"""Cameras and microphones, through ffmpeg's input devices."""

from __future__ import annotations

import sys
from pathlib import Path

from pipelines.errors import MissingDependencyError
from pipelines.streaming.source import StreamSource

ALSA = Path("/proc/asound/cards")


def device_target(source: StreamSource) -> tuple[str, str]:
    """What to open, and ffmpeg's name of the device format. One helpful line where there is no such device."""
    if source.kind == "camera":
        return _camera(source.target)
    return _microphone(source.target)


def _camera(name: str) -> tuple[str, str]:
    if sys.platform == "darwin":
        return name, "avfoundation"
    if sys.platform == "win32":
        return f"video={name}", "dshow"
    path = Path(f"/dev/video{name}") if name.isdecimal() else Path(name)
    if not path.exists():
        there = sorted(found.name.removeprefix("video") for found in Path("/dev").glob("video[0-9]*"))
        found = f"cameras here: {', '.join(f'camera:{number}' for number in there)}" if there else "there is no camera"
        raise MissingDependencyError(f"camera:{name}: {path} does not exist; {found} (connect one, or name a file)")
    return str(path), "v4l2"


def _microphone(name: str) -> tuple[str, str]:
    if sys.platform == "darwin":
        return f":{'0' if name == 'default' else name}", "avfoundation"
    if sys.platform == "win32":
        return f"audio={name}", "dshow"
    if _has_format("pulse"):
        return name, "pulse"
    if name == "default" and not _has_sound_card():
        raise MissingDependencyError(
            "mic: there is no sound card (ALSA lists none): connect a microphone, or pipe sound in, as in "
            "`parec --raw --rate=16000 --channels=1 | cotrans stream - --rate 16000`"
        )
    return name, "alsa"


def _has_sound_card() -> bool:
    try:
        return "no soundcards" not in ALSA.read_text()
    except OSError:
        return False


def _has_format(name: str) -> bool:
    import av

    return any(name in known.split(",") for known in av.formats_available)
