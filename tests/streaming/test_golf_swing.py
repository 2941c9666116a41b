"""The built-in model `golf-swing`, and the lag of models without memory."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from pipelines.datasets.published.golf import PHASES, TABLE, read_swings
from pipelines.errors import ConfigurationError
from pipelines.metrics.class_order import OrderFilter
from pipelines.metrics.probabilities import probabilities
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.streaming import open_model
from tests.streaming.made_streams import played, scores_of, write_rows


@pytest.mark.parametrize("file", ["0000.mp4", "0004.mp4", "0019.mp4"])
def test_a_real_swing_goes_through_its_phases_in_order(file: str, shared_dir: Path) -> None:
    root = shared_dir / "golf"
    (swing,) = [each for each in read_swings(root / TABLE) if each.file == file]
    predictions = played([root / "clips" / swing.file], open_model("golf-swing"))
    spoken = [one for one in predictions if one.begin > -1e-6]
    order = [PHASES.index(one.label or "") for one in spoken]
    assert [order[0], *(later for earlier, later in pairwise(order) if later != earlier)] == list(range(len(PHASES)))
    top = next(one.begin for one in spoken if one.label == "downswing")
    assert top == pytest.approx(swing.events[3] / 29.97, abs=0.1)


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
