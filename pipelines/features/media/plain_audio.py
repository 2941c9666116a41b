"""Plain audio files (WAV, FLAC, AIFF, ...) through libsndfile: exact sample positions, no guesswork."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.features.media.audio import AudioTrackReader
from pipelines.features.media.container import check_local
from pipelines.features.media.damage import missing_bytes
from pipelines.features.media.info import AudioBlock, AudioTrack, MediaInfo
from pipelines.features.media.timeline import Timeline

# What such files begin with. libsndfile is not asked about others: it tries MP3 on anything and talks on stderr.
MAGIC = (b"RIFF", b"RF64", b"riff", b"FORM", b".snd", b"caff", b"fLaC")
FORMATS = frozenset({"WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF", "FLAC"})
CHANNELS = {1: "mono", 2: "stereo"}  # with more, ffmpeg knows which channel is which
BLOCK = 1 << 15  # samples read at a time


class PlainAudio:
    """One pass over a mono or stereo file, from `start` to `stop` media seconds."""

    def __init__(self, path: Path, file: Any, rate: int | None, start: float, stop: float) -> None:
        self._path = path
        self._file = file
        self._stop = stop
        self._track = AudioTrackReader(Timeline(0.0, None), file.samplerate, rate, start)
        self.damage: str | None = None
        track = AudioTrack(
            codec=file.subtype.lower(),
            rate=file.samplerate,
            channels=file.channels,
            layout=CHANNELS[file.channels],
            duration=file.frames / file.samplerate,
        )
        self.info = MediaInfo(
            source=str(path),
            format=file.format.lower(),
            duration=track.duration,
            audio=track,
            video=None,
            size=path.stat().st_size,
        )

    @classmethod
    def open(cls, path: Path, rate: int | None = None, start: float = 0.0, stop: float = math.inf) -> PlainAudio | None:
        """None where the file is not plain audio: ffmpeg is to try."""
        import soundfile

        check_local(path)
        if not path.is_file():  # a named pipe must not lose its first bytes to an attempt
            return None
        with path.open("rb") as head:
            if head.read(4) not in MAGIC:
                return None
        try:
            file = soundfile.SoundFile(os.fsencode(path))  # as text, it would have to be UTF-8
        except (soundfile.LibsndfileError, OSError):
            return None
        if file.format not in FORMATS or file.channels not in CHANNELS or not file.seekable():
            file.close()
            return None
        return cls(path, file, rate, start, stop)

    @property
    def end(self) -> float:
        return self._track.end

    @property
    def flawless(self) -> bool:
        """Whether nothing wrong was seen so far."""
        return not self._track.not_finite

    def empty_tracks(self) -> list[str]:
        return [] if self._track.heard else ["audio"]

    def __iter__(self) -> Iterator[AudioBlock]:
        import soundfile

        rate, frames = self._file.samplerate, self._file.frames
        position = min(round(self._track.end * rate), frames)
        last = frames if math.isinf(self._stop) else min(frames, round(self._stop * rate))
        problems = []
        try:
            self._file.seek(position)
            while position < last:
                samples = self._file.read(min(BLOCK, last - position), dtype="float32", always_2d=True)
                if not len(samples):
                    break
                mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)
                yield from self._track.place(self._track.finite(mono), position / rate)
                position += len(samples)
        except soundfile.LibsndfileError as error:
            problems.append(f"reading stopped early ({error.error_string})")
        yield from self._track.flush()
        if position < last or (last == frames and missing_bytes(self._path)):
            problems.append("the file ends in the middle")
        if self._track.not_finite:
            problems.append(f"audio samples that are NaN or infinite: {self._track.not_finite}")
        self.damage = "; ".join(problems) or None

    def close(self) -> None:
        self._file.close()
