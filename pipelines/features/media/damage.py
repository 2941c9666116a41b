"""Telling a file that ends in the middle from a whole one. ffmpeg plays what is there and says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.features.media.container import stream_end

# Containers in which the recorder states the length. Elsewhere ffmpeg estimates it from the file's size.
STATED_LENGTH = frozenset({"mov", "mp4", "matroska", "webm", "flac", "asf", "flv"})
SHORT_BY = 0.75  # seconds that may be missing: edit lists, encoder delay, the last frame's duration
# Written by recorders that cannot seek back to the header.
UNKNOWN_SIZES = frozenset({0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF})


def missing_bytes(path: Path) -> int:
    """How many bytes a RIFF or FORM file (WAV, AVI, AIFF) lacks by its own header; 0 for everything else."""
    with path.open("rb") as file:
        head = file.read(8)
    if len(head) < 8 or head[:4] not in (b"RIFF", b"FORM"):
        return 0
    stated = int.from_bytes(head[4:], "little" if head[:4] == b"RIFF" else "big")
    if stated in UNKNOWN_SIZES or stated >= 0xFFFFFF00:
        return 0
    return max(0, stated + 8 - path.stat().st_size - 1)  # the last chunk's padding byte is often left out


def missing_seconds(container: Any, ends: dict[Any, float], origin: float) -> float:
    """How much less a stream gave than its header states, at most. `ends`: decoded media time per stream."""
    if not set(container.format.name.split(",")) & STATED_LENGTH:
        return 0.0
    missing = 0.0
    for stream, end in ends.items():
        stated = stream_end(stream)
        if stated is not None:
            missing = max(missing, stated - origin - end)
    return missing if missing > SHORT_BY else 0.0
