"""What stands above the lanes of a report: the waveform of sound, or small pictures of a video."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CotransError
from pipelines.features.media import AudioBlock, DamagedMediaError, VideoFrame, decode
from pipelines.pages.jpeg import jpeg_text
from pipelines.pages.media import MediaLink
from pipelines.pages.packing import as_bytes, base64_text

FINEST = 0.05  # seconds of sound in one peak
MOST_PEAKS = 4000  # in a report
QUIETEST = 0.02  # the loudest peak of sound that is drawn at its own height: noise is not blown up
MOST_PICTURES = 24
HEIGHT = 52  # pixels
JPEG_QUALITY = 60


def media_strip(path: Path, media: MediaLink) -> dict[str, Any] | None:
    """As assets/timeline.js takes it; None where nothing can be decoded."""
    try:
        if media.kind == "video" and media.duration is not None:
            return thumbnails(path, media.duration)
        return waveform(path)
    except CotransError:  # a report is worth having without it
        return None


def waveform(path: Path) -> dict[str, Any]:
    """The largest samples of short stretches, at most 4,000 of them."""
    peaks = _peaks(path)
    joined = -(-len(peaks) // MOST_PEAKS) or 1
    padded = np.pad(peaks, (0, -len(peaks) % joined))
    heights = padded.reshape(-1, joined).max(axis=1)
    loudest = max(QUIETEST, float(heights.max(initial=0.0)))
    return {"kind": "waveform", "peaks": base64_text(as_bytes(heights / loudest).tobytes()), "step": FINEST * joined}


def _peaks(path: Path) -> NDArray[np.float32]:
    """(peaks,): the largest magnitude in each stretch of FINEST seconds."""
    peaks: list[NDArray[np.float32]] = []
    rest = np.zeros(0, np.float32)
    try:
        for block in decode(path, audio=True):
            assert isinstance(block, AudioBlock)
            size = max(1, round(FINEST * block.rate))
            samples = np.concatenate([rest, np.abs(block.samples)])
            whole = len(samples) // size * size
            peaks.append(samples[:whole].reshape(-1, size).max(axis=1))
            rest = samples[whole:]
    except DamagedMediaError:
        pass  # what could be decoded is drawn
    return np.concatenate([*peaks, rest.max(keepdims=True) if len(rest) else rest])


def thumbnails(path: Path, duration: float) -> dict[str, Any]:
    """Pictures at regular times."""
    count = max(1, min(MOST_PICTURES, round(duration)))
    times = [(place + 0.5) * duration / count for place in range(count)]
    pictures = [{"time": round(time, 3), "jpeg": picture} for time in times if (picture := _picture(path, time))]
    return {"kind": "thumbnails", "images": pictures}


def _picture(path: Path, time: float) -> str | None:
    try:
        with decode(path, audio=False, video=True, start=time) as reader:
            frame = next(iter(reader), None)
    except CotransError:
        return None
    if not isinstance(frame, VideoFrame):
        return None
    return jpeg_text(frame.image, (4 * HEIGHT, HEIGHT), JPEG_QUALITY)
