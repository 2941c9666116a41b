"""Raw sound from a pipe, as `ffmpeg … -f s16le -` and `arecord -t raw` write it."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from threading import Event
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError
from pipelines.features.media import AudioBlock, AudioTrack, MediaInfo
from pipelines.streaming.options import PcmOptions

# numpy's type, and what full scale is in it
_TYPES: dict[str, tuple[str, float]] = {
    "u8": ("u1", 2.0**7),
    "s16le": ("<i2", 2.0**15),
    "s16be": (">i2", 2.0**15),
    "s24le": ("u1", 2.0**31),
    "s32le": ("<i4", 2.0**31),
    "s32be": (">i4", 2.0**31),
    "f32le": ("<f4", 1.0),
    "f32be": (">f4", 1.0),
    "f64le": ("<f8", 1.0),
}
MOST_BYTES = 1 << 16  # read at a time: what a pipe holds


class PcmReader:
    """Mono blocks from interleaved samples, as they arrive. A frame that is cut off at the end is left out."""

    def __init__(self, file: BinaryIO, options: PcmOptions, stop: Event, name: str = "-") -> None:
        self.name = name
        self._file, self._options, self._stop = file, options, stop
        track = AudioTrack(f"pcm_{options.sample_format}", options.rate, options.channels, "", None)
        self.info = MediaInfo(name, "pcm", None, track, None, None)

    def __iter__(self) -> Iterator[AudioBlock]:
        size = self._options.channels * sample_bytes(self._options.sample_format)
        count = 0
        rest = b""
        for data in self._pieces():
            data = rest + data
            whole = len(data) - len(data) % size
            rest = data[whole:]
            if whole:
                samples = mono(data[:whole], self._options)
                yield AudioBlock(samples, self._options.rate, count / self._options.rate)
                count += len(samples)
        if not count and not self._stop.is_set():
            raise InputError(f"{self.name}: no sound came (is the program before the pipe running?)")

    def close(self) -> None:
        """Standard input is not ours to close."""

    def _pieces(self) -> Iterator[bytes]:
        """Bytes as they come, until the other side closes the pipe or the stream is stopped."""
        try:
            handle = self._file.fileno()
        except (OSError, ValueError):  # an object that only looks like a file
            while data := self._file.read(MOST_BYTES):
                yield data
            return
        while not self._stop.is_set():
            ready, _, _ = select.select([handle], [], [], 0.2)
            if not ready:
                continue
            data = os.read(handle, MOST_BYTES)
            if not data:
                return
            yield data


def sample_bytes(sample_format: str) -> int:
    """Bytes of one sample of one channel."""
    return 3 if sample_format.startswith("s24") else np.dtype(_TYPES[sample_format][0]).itemsize


def mono(data: bytes, options: PcmOptions) -> NDArray[np.float32]:
    """Whole frames of interleaved samples -> (n,): the mean of the channels, nominally in [-1, 1]."""
    kind, scale = _TYPES[options.sample_format]
    raw = np.frombuffer(data, kind)
    if options.sample_format == "s24le":
        padded = np.zeros((len(raw) // 3, 4), np.uint8)  # the low byte stays 0
        padded[:, 1:] = raw.reshape(-1, 3)
        raw = padded.view("<i4").ravel()
    values = raw.astype(np.float32) if scale != 2.0**31 else (raw / scale).astype(np.float32)
    if options.sample_format == "u8":
        values = values - np.float32(128)
    if scale not in (1.0, 2.0**31):
        values = values / np.float32(scale)
    values = np.where(np.isfinite(values), values, np.float32(0))
    if options.channels > 1:
        values = values.reshape(-1, options.channels).mean(axis=1, dtype=np.float32)
    return np.ascontiguousarray(values, np.float32)
