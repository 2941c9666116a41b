"""Cameras and microphones, through ffmpeg's input devices."""

from __future__ import annotations

import sys
from pathlib import Path

from pipelines.checkpoints.builtin import builtin_models
from pipelines.errors import InputError, MissingDependencyError
from pipelines.features.spec import Kind
from pipelines.streaming.sources.source import StreamSource

ALSA = Path("/proc/asound/cards")


def check_device(source: StreamSource, audio: bool, video: bool) -> None:
    """Refuse a device that does not give what the model's features need, and say what to use instead."""
    camera = source.kind == "camera"
    if not (audio if camera else video):
        return
    if audio and video:
        raise InputError(
            f"{source.name}: gives {'pictures' if camera else 'sound'} only, but the model takes sound and pictures "
            "together: name a file, an address or - that holds both"
        )
    gives, needed, other = ("video", "audio", "mic:") if camera else ("audio", "video", "camera:0")
    fitting = models_taking("video" if camera else "audio")
    choice = ", ".join(fitting) if fitting else f"none is built in; `cotrans train` makes one from {gives} features"
    raise InputError(
        f"{source.name}: gives {gives}, but the model takes {needed}: use {other} with this model, or --model with one "
        f"that takes {gives} ({choice})"
    )


def models_taking(kind: Kind) -> list[str]:
    """Built-in models whose features come from one kind of media alone."""
    specs = {model.name: model.features for model in builtin_models()}
    return [name for name, spec in specs.items() if spec and {part.kind for part in spec.parts} == {kind}]


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
        there = sorted(cameras.name.removeprefix("video") for cameras in Path("/dev").glob("video[0-9]*"))
        cameras = (
            f"cameras here: {', '.join(f'camera:{number}' for number in there)}" if there else "there is no camera"
        )
        raise MissingDependencyError(f"camera:{name}: {path} does not exist; {cameras} (connect one, or name a file)")
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
