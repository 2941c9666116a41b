"""Live prediction: sources, pacing, the stream session and sinks.

    from pipelines.streaming import open_model, open_stream

    model = open_model("sound-events")
    with open_stream("video.mp4", model) as stream:
        for prediction in stream:
            print(prediction.time, prediction.label, prediction.score)

Names are looked up when they are used: what only reads options or finds sources does not wait for PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.lazy_names import lazy_names

if TYPE_CHECKING:
    from pipelines.model.precision import Precision
    from pipelines.streaming.messages import SourceEnded as SourceEnded
    from pipelines.streaming.options import PcmOptions as PcmOptions
    from pipelines.streaming.options import PlayOptions as PlayOptions
    from pipelines.streaming.options import PredictionOptions as PredictionOptions
    from pipelines.streaming.output.summary import Summary as Summary
    from pipelines.streaming.pipeline import Stream as Stream
    from pipelines.streaming.predicting.prediction import Prediction as Prediction
    from pipelines.streaming.predicting.session import StreamSession as StreamSession
    from pipelines.streaming.predicting.stream_model import StreamModel as StreamModel
    from pipelines.streaming.predicting.stream_model import open_model as open_model
    from pipelines.streaming.sources.source import StreamSource as StreamSource
    from pipelines.streaming.sources.source import find_sources as find_sources

# Public name -> the module that has it.
_PUBLIC = {
    "PcmOptions": "pipelines.streaming.options",
    "PlayOptions": "pipelines.streaming.options",
    "Prediction": "pipelines.streaming.predicting.prediction",
    "PredictionOptions": "pipelines.streaming.options",
    "SourceEnded": "pipelines.streaming.messages",
    "Stream": "pipelines.streaming.pipeline",
    "StreamModel": "pipelines.streaming.predicting.stream_model",
    "StreamSession": "pipelines.streaming.predicting.session",
    "StreamSource": "pipelines.streaming.sources.source",
    "Summary": "pipelines.streaming.output.summary",
    "find_sources": "pipelines.streaming.sources.source",
    "open_model": "pipelines.streaming.predicting.stream_model",
}
__all__ = [*_PUBLIC, "open_stream"]
__getattr__ = lazy_names(__name__, _PUBLIC)


def open_stream(
    sources: str | Sequence[str],
    model: StreamModel | None = None,
    prediction: PredictionOptions | None = None,
    *,
    precision: Precision = "float32",
    **play: Any,
) -> Stream:
    """A stream of predictions while sources play: files, folders, addresses, `camera:0`, `mic:`, `-`.

        with open_stream("video.mp4", model, fast=True) as stream:
            for prediction in stream:
                print(prediction.time, prediction.label, prediction.score)

    model: of `open_model`; None: the user's default one, in the given precision of weights. prediction: smoothing,
    threshold, how many classes.
    play: fields of `PlayOptions`: fast=True plays files as fast as possible instead of in real time, start and
    duration cut them, loop repeats them.

    `stream.to_frame()` plays to the end and gives a pandas frame. `stream.stop()` ends it from any thread, leaving the
    `with` block ends all its threads, `stream.summary()` says how it went. If no source can be played, iterating raises
    the error of the first; otherwise the errors are in `stream.errors`.
    """
    from pipelines.errors import UsageError
    from pipelines.streaming.options import PlayOptions
    from pipelines.streaming.pipeline import Stream
    from pipelines.streaming.predicting.stream_model import open_model
    from pipelines.streaming.sources.source import find_sources

    texts = [sources] if isinstance(sources, str) else list(sources)
    if model is not None and precision != "float32":
        raise UsageError(f"precision {precision} is chosen when a model is opened: give it to open_model")
    return Stream(find_sources(texts), model or open_model(precision=precision), PlayOptions(**play), prediction)
