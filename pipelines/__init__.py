"""Continual transformers for audio and video: everything that the cotrans commands chain, for use from Python.

    import cotrans                       # the same names as `pipelines`

    model = cotrans.open_model("sound-events")
    with cotrans.open_stream("video.mp4", model, fast=True) as stream:
        for prediction in stream:
            print(prediction.time, prediction.label, prediction.score)

`open_model` and `open_stream` predict, `extract` makes features, `open_dataset` opens recordings with their labels,
`train` and `evaluate` do what they say, `convert` makes a streaming model of a regular one, `export` a graph for other
runtimes, `load_checkpoint` and `save_checkpoint` read and write models, and `ContinualTransformer` with its
`ModelConfig` is the model itself. What a user can mend raises `CotransError`. docs/python.md shows each of them.
Importing this imports none of it, and no PyTorch: names are looked up when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.lazy_names import lazy_names

if TYPE_CHECKING:
    from pipelines.api.conversion import convert as convert
    from pipelines.api.evaluation import EvaluationResult as EvaluationResult
    from pipelines.api.evaluation import evaluate as evaluate
    from pipelines.api.export import export as export
    from pipelines.api.extraction import extract as extract
    from pipelines.api.progress import Progress as Progress
    from pipelines.api.training import train as train
    from pipelines.checkpoints.checkpoint import load_checkpoint as load_checkpoint
    from pipelines.checkpoints.checkpoint import save_checkpoint as save_checkpoint
    from pipelines.datasets.opening import open_dataset as open_dataset
    from pipelines.errors import CotransError as CotransError
    from pipelines.model.transformer.config import ModelConfig as ModelConfig
    from pipelines.model.transformer.model import ContinualTransformer as ContinualTransformer
    from pipelines.streaming import open_stream as open_stream
    from pipelines.streaming.predicting.stream_model import open_model as open_model

__version__ = "0.2.0"

# Public name -> the module that has it.
_PUBLIC = {
    "open_model": "pipelines.streaming.predicting.stream_model",
    "open_stream": "pipelines.streaming",
    "ContinualTransformer": "pipelines.model.transformer.model",
    "ModelConfig": "pipelines.model.transformer.config",
    "load_checkpoint": "pipelines.checkpoints.checkpoint",
    "save_checkpoint": "pipelines.checkpoints.checkpoint",
    "convert": "pipelines.api.conversion",
    "export": "pipelines.api.export",
    "extract": "pipelines.api.extraction",
    "train": "pipelines.api.training",
    "evaluate": "pipelines.api.evaluation",
    "open_dataset": "pipelines.datasets.opening",
    "CotransError": "pipelines.errors",
    "EvaluationResult": "pipelines.api.evaluation",
    "Progress": "pipelines.api.progress",
}
__all__ = ["__version__", *_PUBLIC]
__getattr__ = lazy_names(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
