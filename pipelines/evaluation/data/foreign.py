"""Recordings of no class, to see how often a model says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from pipelines.errors import ConfigurationError
from pipelines.features.extraction.sources import recordings_in
from pipelines.features.extractor import Rows
from pipelines.features.joint import feature_rows
from pipelines.features.media import decode
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.running.runner import Recording


def foreign_recordings(folder: Path, spec: FeatureSpec | None) -> list[Recording]:
    """The media in a folder as recordings with a model's own features, computed when they are asked for, and kept."""
    if spec is None:
        raise ConfigurationError("--foreign: the model does not say which features it takes, so it cannot play media")
    streams = StreamFactory.for_spec(spec)
    return [
        Recording(recording.name, _opener(recording.path, streams)) for recording in recordings_in(folder, "--foreign")
    ]


def _opener(path: Path, streams: StreamFactory) -> Callable[[], Rows]:
    @cache  # who runs a model asks for the length first
    def rows() -> Rows:
        stream = streams.prototype()
        with decode(path, audio=stream.needs_audio, video=stream.needs_video) as reader:
            return np.concatenate(list(feature_rows(reader, stream)))

    return rows
