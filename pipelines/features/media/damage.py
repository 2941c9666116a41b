"""Telling a file that ends in the middle from a whole one. ffmpeg plays what is there and says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from pipelines.features.media.container import stream_end

# Containers in which the recorder states the length. Elsewhere ffmpeg estimates it from the file's size.
STATED_LENGTH = frozenset({"mov", "mp4", "matroska", "webm", "flac", "asf", "flv", "avi"})
# Of these, containers that state each track's own length, whatever their size says.
OWN_LENGTH = frozenset({"matroska", "avi"})
SHORT_BY = 0.75  # seconds that may be missing: edit lists, encoder delay, the last frame's duration
# Sizes of RIFF files whose recorder could not seek back to the header.
UNKNOWN_SIZES = frozenset({0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF})
MOST_BOXES = 100_000  # boxes of an MP4 file that are looked at
MOST_PAGE = 65_307  # bytes of an Ogg page, at most
SEGMENT = b"\x18\x53\x80\x67"  # Matroska's outermost element


def missing_bytes(path: Path) -> int | None:
    """How many bytes a file lacks by its own header; None for files that do not state their size."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        file.seek(0)
        if head[:4] in (b"RIFF", b"FORM"):
            end = _riff_end(head)
        elif head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
            end = _boxes_end(file, size)
        elif head[:4] == b"\x1a\x45\xdf\xa3":
            end = _segment_end(file)
        elif head[:4] == b"OggS":
            end = _ogg_end(file, size)
        elif head[:3] == b"ID3" or (head[0:1] == b"\xff" and len(head) > 1 and head[1] >= 0xE0):
            end = _mpeg_audio_end(file)
        else:
            end = None
    return None if end is None else max(0, end - size)


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


def _ogg_end(file: BinaryIO, size: int) -> int | None:
    """Ogg: the last page must be whole and say that it is the last of its stream."""
    file.seek(max(0, size - 2 * MOST_PAGE))
    tail = file.read()
    place = tail.rfind(b"OggS")
    if place < 0 or place + 27 > len(tail):
        return size + 1
    segments = tail[place + 26]
    table = tail[place + 27 : place + 27 + segments]
    stated = size - len(tail) + place + 27 + segments + sum(table)
    last_of_stream = tail[place + 5] & 4
    return max(stated, size if last_of_stream else size + 1)


def _mpeg_audio_end(file: BinaryIO) -> int | None:
    """MP3: many encoders state the bytes of all frames in a first, silent frame (Xing or Info)."""
    head = file.read(10)
    start = 0
    if head[:3] == b"ID3" and len(head) == 10:
        start = 10 + sum((byte & 0x7F) << (7 * (3 - place)) for place, byte in enumerate(head[6:10]))
    file.seek(start)
    frame = file.read(200)
    place = max(frame.find(b"Xing"), frame.find(b"Info"))
    if place < 0 or len(frame) < place + 16 or frame[place + 7] & 3 != 3:  # frames and bytes are stated
        return None
    return start + int.from_bytes(frame[place + 12 : place + 16], "big")


def _riff_end(head: bytes) -> int | None:
    """WAV, AVI, AIFF: one chunk around everything."""
    stated = int.from_bytes(head[4:8], "little" if head[:4] == b"RIFF" else "big")
    # The padding byte of the last chunk is often left out.
    return None if stated in UNKNOWN_SIZES or stated >= 0xFFFFFF00 else stated + 8 - 1


def _boxes_end(file: BinaryIO, size: int) -> int | None:
    """MP4 and QuickTime: box after box."""
    position = 0
    for _ in range(MOST_BOXES):
        file.seek(position)
        head = file.read(16)
        if len(head) < 8 or not head[4:8].isalnum():  # the end, or something that is no box
            return position if len(head) < 8 else None
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8:  # 0: until the end of the file
            return None
        position += length
        if position >= size:
            return position
    return None


def _segment_end(file: BinaryIO) -> int | None:
    """Matroska and WebM: a header, then one segment."""
    head = file.read(4096)
    place = head.find(SEGMENT)
    if place < 0 or place + 12 > len(head) or head[place + 4] == 0:
        return None
    first = head[place + 4]
    octets = 9 - first.bit_length()  # the leading zeros of the first byte say how long the number is
    number = head[place + 4 : place + 4 + octets]
    value = int.from_bytes(number, "big") & ((1 << 7 * octets) - 1)
    unknown = value == (1 << 7 * octets) - 1  # all ones: a live recording
    return None if unknown else place + 4 + octets + value
