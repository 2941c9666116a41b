"""The built-in model `objects`: the network's own classifier, smoothed over a second, for pictures without sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.checkpoints.builtin import builtin_models, find_model
from pipelines.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from pipelines.datasets.mixing.made_pictures import KINDS
from pipelines.errors import CheckpointError
from pipelines.features.media import decode
from pipelines.features.video import build_video_extractor
from pipelines.streaming import PredictionOptions, open_model
from pipelines.streaming.predicting.prediction import probabilities
from tests.features.made_media import VideoTrackOptions, write_media
from tests.streaming.made_streams import played, write_video


def test_it_says_what_the_network_says_of_every_picture(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", 1.5, sound=False)
    model = open_model("objects")
    predictions = played([video], model)
    network = build_video_extractor("efficientnet_lite0", options={"output": "classes"})
    frames = list(decode(video, audio=False, video=True))
    alone = []
    for prediction in predictions:
        middle = prediction.time - 0.125
        shown = next(frame for frame in frames if frame.time <= middle + 1e-3 < frame.end + 1e-3)
        expected = network.push(shown.image[None])[0]
        np.testing.assert_allclose(prediction.scores, expected, atol=1e-3)
        alone.append(probabilities(prediction.scores, "softmax"))
    smoothed = [np.mean(alone[max(0, place - 3) : place + 1], axis=0) for place in range(len(alone))]
    for prediction, expected in zip(predictions, smoothed, strict=True):
        np.testing.assert_allclose(prediction.probabilities, expected, atol=1e-6)
        assert not prediction.warmup
    raw = played([video], model, PredictionOptions(smooth=0.0))
    np.testing.assert_allclose([prediction.probabilities for prediction in raw], alone, atol=1e-6)


def shown(place: Path, picture: NDArray[np.uint8], threshold: float | None = None) -> list[str | None]:
    """The labels of a second of one picture."""
    height, width = (side - side % 2 for side in picture.shape[:2])
    times = [number / 8 for number in range(8)]
    still = np.ascontiguousarray(picture[:height, :width])
    video = VideoTrackOptions(size=(width, height), times=times, picture=lambda *_: still)
    path = write_media(place / "picture.mp4", video=video)
    return [one.label for one in played([path], open_model("objects"), PredictionOptions(threshold=threshold))]


@pytest.mark.parametrize("kind", [*KINDS, "black", "white"])
def test_pictures_of_nothing_are_none_unless_a_threshold_says_otherwise(kind: str, tmp_path: Path) -> None:
    if kind in KINDS:
        picture = KINDS[kind](np.random.default_rng([99, 1]))  # not what the rule was fitted on
    else:
        picture = np.full((256, 256, 3), 0 if kind == "black" else 255, np.uint8)
    assert shown(tmp_path, picture) == [None] * 4
    assert None not in shown(tmp_path, picture, 0.0)


def test_pictures_of_something_keep_their_names(tmp_path: Path) -> None:
    from sklearn.datasets import load_sample_image

    assert set(shown(tmp_path, load_sample_image("flower.jpg"))) == {"daisy"}
    assert set(shown(tmp_path, load_sample_image("china.jpg"))) <= {"palace", "monastery"}


def test_what_the_list_of_models_knows() -> None:
    (objects,) = [model for model in builtin_models() if model.name == "objects"]
    assert len(objects.class_names) == len(set(objects.class_names)) == 1000 and objects.window == 1
    checkpoint = load_checkpoint(objects.path)
    assert checkpoint.smoothing == 1.0 and checkpoint.config.kind == "per-frame"
    assert load_checkpoint(find_model("sound-events")).smoothing == 0.0


def test_smoothing_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    path = find_model("objects")
    checkpoint = load_checkpoint(path)
    save_checkpoint(tmp_path / "a.safetensors", checkpoint.model, checkpoint.class_names, smoothing=-1.0)
    with pytest.raises(CheckpointError, match=r"smoothed over -1 s"):
        load_checkpoint(tmp_path / "a.safetensors")
