"""The built-in model `golf-swing`, and the lag of models without memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cotrans_cli.main import run
from pipelines.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from pipelines.datasets.published.golf import PHASES, TABLE, read_swings
from pipelines.errors import ConfigurationError
from pipelines.metrics.class_order import OrderFilter
from pipelines.metrics.probabilities import probabilities
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.streaming import PredictionOptions, open_model
from tests.features.made_media import VideoTrackOptions, brightness, write_media
from tests.streaming.made_streams import played, scores_of, write_rows


@pytest.mark.parametrize("file", ["0000.mp4", "0004.mp4", "0019.mp4"])
def test_a_real_swing_goes_through_its_phases_in_order(file: str, shared_dir: Path) -> None:
    root = shared_dir / "golf"
    (swing,) = [each for each in read_swings(root / TABLE) if each.file == file]
    predictions = played([root / "clips" / swing.file], open_model("golf-swing"))
    spoken = [one for one in predictions if one.begin > -1e-6]
    order = [PHASES.index(one.label) for one in spoken if one.label is not None]
    assert [order[0], *(later for earlier, later in pairwise(order) if later != earlier)] == list(range(len(PHASES)))
    top = next(one.begin for one in spoken if one.label == "downswing")
    assert top == pytest.approx(swing.events[3] / 29.97, abs=0.1)
    swinging = [one for one in spoken if swing.events[0] < one.begin * 29.97 < swing.events[-1]]
    assert all(one.label is not None for one in swinging) and len(order) > 0.7 * len(spoken)


def without_a_golfer(kind: str) -> Callable[[float, int, int], NDArray[np.uint8]]:
    draw = np.random.default_rng(3)
    scene = cv2.resize(draw.integers(0, 256, (12, 12, 3), np.uint8), (200, 200), interpolation=cv2.INTER_CUBIC)

    def picture(time: float, width: int, height: int) -> NDArray[np.uint8]:
        if kind == "black":
            return np.zeros((height, width, 3), np.uint8)
        if kind == "noise":
            return draw.integers(0, 256, (height, width, 3), np.uint8)
        across, down = (20, 20) if kind == "still" else draw.integers(15, 26, 2)
        return np.ascontiguousarray(scene[down : down + height, across : across + width])

    return picture


@pytest.mark.parametrize("kind", ["black", "noise", "still", "shaking"])
def test_what_shows_no_swing_is_none_unless_a_threshold_says_otherwise(kind: str, tmp_path: Path) -> None:
    times = [number / 29.97 for number in range(90)]
    video = VideoTrackOptions(size=(160, 160), times=times, picture=without_a_golfer(kind))
    path = write_media(tmp_path / "a.mp4", video=video)
    model = open_model("golf-swing")
    labels = [one.label for one in played([path], model)]
    assert len(labels) > 80 and np.mean([label is None for label in labels]) > 0.9
    named = [one.label for one in played([path], model, PredictionOptions(threshold=0.0))]
    assert len(named) == len(labels) and None not in named


def test_two_swings_in_one_stream_are_two_rounds(shared_dir: Path) -> None:
    """By the scores of two clips, one after the other: after the finish people stand for the next swing."""
    model = open_model("golf-swing")
    assert model.order is not None
    clips = [shared_dir / "golf" / "clips" / file for file in ("0000.mp4", "0004.mp4")]
    scores = np.concatenate([scores_of(played([clip], model)) for clip in clips])
    labels = OrderFilter(model.order, 1 / 29.97).decode(probabilities(scores, "softmax")).argmax(axis=1).tolist()
    rounds = [labels[0], *(later for earlier, later in pairwise(labels) if later != earlier)]
    assert rounds == [*range(len(PHASES))] * 2


def test_a_model_without_memory_may_speak_of_an_earlier_row(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.npy", 12)
    torch.manual_seed(0)
    model = PerFrameModel(PerFrameConfig(input_width=rows.shape[1], classes=4, lag=3))
    save_checkpoint(tmp_path / "m.safetensors", model.eval())
    assert load_checkpoint(tmp_path / "m.safetensors").config.lag == 3
    predictions = played([tmp_path / "rows.npy"], open_model(tmp_path / "m.safetensors"), hop=0.1)
    with torch.no_grad():
        expected = model.classifier(torch.from_numpy(rows)).numpy()
    # Three at the end about the last rows, for which nothing more comes: by the last row of all.
    np.testing.assert_allclose(scores_of(predictions), [*expected, *[expected[-1]] * 3], atol=1e-5)
    assert predictions[0].end == pytest.approx(-0.2) and predictions[-1].end == pytest.approx(1.2)
    with pytest.raises(ConfigurationError, match="lag must not be negative"):
        PerFrameConfig(input_width=3, classes=2, lag=-1)


@pytest.mark.parametrize(("rate", "remarks"), [(8, 1), (15, 0), (30, 0)])
def test_too_few_pictures_a_second_are_remarked_on(
    rate: int, remarks: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = [number / rate for number in range(2 * rate)]
    path = write_media(tmp_path / "a.mp4", video=VideoTrackOptions(size=(160, 160), times=times, picture=brightness))
    assert run(["stream", str(path), "--model", "golf-swing", "--fast", "--segments"]) == 0
    assert capsys.readouterr().err.count("pictures a second are few") == remarks
    assert run(["stream", str(path), "--model", "objects", "--fast", "--segments"]) == 0
    assert "pictures a second" not in capsys.readouterr().err
