"""Live prediction: sources, pacing, the stream session and sinks.

from pipelines.streaming import open_model, open_stream

model = open_model("sound-events")
with open_stream("video.mp4", model) as stream:
    for prediction in stream:
        print(prediction.time, prediction.label, prediction.score)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.streaming.messages import SourceEnded
from pipelines.streaming.options import PcmOptions, PlayOptions, PredictionOptions
from pipelines.streaming.output.summary import Summary
from pipelines.streaming.pipeline import Stream
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.predicting.session import StreamSession
from pipelines.streaming.predicting.stream_model import StreamModel, open_model
from pipelines.streaming.sources.source import StreamSource, find_sources

__all__ = [
    "PcmOptions",
    "PlayOptions",
    "Prediction",
    "PredictionOptions",
    "SourceEnded",
    "Stream",
    "StreamModel",
    "StreamSession",
    "StreamSource",
    "Summary",
    "find_sources",
    "open_model",
    "open_stream",
]


def open_stream(
    sources: str | Sequence[str],
    model: StreamModel | None = None,
    prediction: PredictionOptions | None = None,
    **play: Any,
) -> Stream:
    """A stream of predictions while sources play: files, folders, addresses, `camera:0`, `mic:`, `-`.

        with open_stream("video.mp4", model, fast=True) as stream:
            for prediction in stream:
                print(prediction.time, prediction.label, prediction.score)

    model: of `open_model`; None: the user's default one. prediction: smoothing, threshold, how many classes.
    play: fields of `PlayOptions`: fast=True plays files as fast as possible instead of in real time, start and
    duration cut them, loop repeats them.

    `stream.to_frame()` plays to the end and gives a pandas frame. `stream.stop()` ends it from any thread, leaving the
    `with` block ends all its threads, `stream.summary()` says how it went. If no source can be played, iterating raises
    the error of the first; otherwise the errors are in `stream.errors`.
    """
    texts = [sources] if isinstance(sources, str) else list(sources)
    return Stream(find_sources(texts), model or open_model(), PlayOptions(**play), prediction)
