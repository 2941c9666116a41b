"""Small seeded models, media and feature files for the tests of streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.features.request import FeatureRequest
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.model import ContinualModel, ContinualTransformer, ModelConfig
from pipelines.streaming import PredictionOptions, Stream, StreamModel, find_sources, open_model
from pipelines.streaming.options import PlayOptions
from pipelines.streaming.predicting.prediction import Prediction
from tests.features.made_media import AudioTrackOptions, VideoTrackOptions, brightness, write_media

CLASSES = ("bark", "rain", "waves", "baby", "clock")
WIDTH = 6  # of features that no extractor made
Matrix = NDArray[np.float32]


def write_model(
    path: Path, features: str | None = None, hop: float = 0.1, blocks: int = 1, seed: int = 0, **changes: Any
) -> Path:
    """A checkpoint with random weights. features: None: of rows that are `WIDTH` wide and that nobody describes."""
    spec: FeatureSpec | None = None
    if features is not None:
        random = "mobilenet" in features
        spec = StreamFactory(FeatureRequest(features, hop=hop, random_weights=random)).prototype().spec
    sizes = {"width": 16, "heads": 2, "feed_forward": 16, "window": 6, "classes": len(CLASSES), **changes}
    torch.manual_seed(seed)
    model = ContinualTransformer(ModelConfig(input_width=spec.width if spec else WIDTH, blocks=blocks, **sizes))
    with torch.no_grad():
        model.classifier.weight.mul_(3)  # scores that differ enough to tell classes apart
    save_checkpoint(path, model.eval(), CLASSES[: sizes["classes"]], spec)
    return path


def small_model(folder: Path, features: str | None = None, **options: Any) -> StreamModel:
    return open_model(write_model(folder / f"{features or 'rows'}.safetensors", features, **options))


def write_rows(path: Path, rows: int = 40, seed: int = 0) -> Matrix:
    """A bare feature file."""
    values = np.random.default_rng(seed).normal(size=(rows, WIDTH)).astype(np.float32)
    np.save(path, values)
    return values


def write_video(path: Path, seconds: float = 2.0, sound: bool = True, size: tuple[int, int] = (64, 48)) -> Path:
    """Moving pictures with sound that changes."""
    times = [index / 25 for index in range(round(25 * seconds))]
    audio = AudioTrackOptions(samples=np.stack([chirp(seconds, 44_100)] * 2)) if sound else None
    return write_media(path, VideoTrackOptions(size=size, times=times, picture=brightness), audio)


def write_sound(path: Path, seconds: float = 2.0, rate: int = 16_000) -> Path:
    samples = chirp(seconds, rate)[None]
    return write_media(path, None, AudioTrackOptions("pcm_s16le", rate, "mono", samples=samples, format="s16"))


def chirp(seconds: float, rate: int) -> NDArray[np.float32]:
    """A tone that rises and gets louder, over some noise."""
    time = np.arange(round(seconds * rate)) / rate
    noise = np.random.default_rng(0).normal(size=len(time)) * 0.02
    return (0.4 * (0.2 + time / seconds) * np.sin(2 * np.pi * (200 + 300 * time) * time) + noise).astype(np.float32)


def played(
    sources: list[Path] | list[str], model: StreamModel, prediction: PredictionOptions | None = None, **play: Any
) -> list[Prediction]:
    """All predictions of a stream; as fast as possible unless told otherwise."""
    options = PlayOptions(**{"fast": True, **play})
    with Stream(find_sources([str(source) for source in sources]), model, options, prediction) as stream:
        return list(stream)


def window_scores(model: StreamModel, rows: Matrix) -> Matrix:
    """The regular model on the last min(t, n) rows, for every t: (T, width) -> (T, classes)."""
    tokens, n = torch.from_numpy(np.array(rows, np.float32))[None], model.window
    with torch.no_grad():
        outputs = [
            model.model(tokens[:, max(0, t - n) : t], start=max(0, t - n)) for t in range(1, tokens.shape[1] + 1)
        ]
    return torch.cat(outputs).numpy()


def scores_of(predictions: list[Prediction], source: int = 0) -> Matrix:
    return np.stack([prediction.scores for prediction in predictions if prediction.source_number == source])


@contextmanager
def step_by_step() -> Iterator[None]:
    """No model takes chunks: `--fast` computes what a stream in real time does, to the last bit."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in _kinds(ContinualModel):
            patch.setattr(kind, "takes_chunks", False)
        yield


def _kinds(kind: type) -> list[type]:
    return [kind, *(each for child in kind.__subclasses__() for each in _kinds(child))]
