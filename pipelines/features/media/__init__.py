"""Reading media: any file, URL or device that ffmpeg opens, in bounded memory.

`probe` says what a source holds. `decode` yields mono audio blocks and RGB frames with their media times from
one pass over the source. Media time starts at 0 where the container says that it starts.
"""

from pipelines.features.media.decode import MediaReader, decode
from pipelines.features.media.info import (
    AudioBlock,
    AudioTrack,
    DamagedMediaError,
    MediaInfo,
    MissingTrackError,
    VideoFrame,
    VideoTrack,
)
from pipelines.features.media.probe import probe
from pipelines.features.media.resampler import Resampler

__all__ = [
    "AudioBlock",
    "AudioTrack",
    "DamagedMediaError",
    "MediaInfo",
    "MediaReader",
    "MissingTrackError",
    "Resampler",
    "VideoFrame",
    "VideoTrack",
    "decode",
    "probe",
]
