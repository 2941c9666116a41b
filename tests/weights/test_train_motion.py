"""The scripts that made `golf-swing`: they run as they stand, and their score is that of a stream."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.datasets.published.golf import PHASES, read_swings
from pipelines.evaluation.scores.predictions import read_predictions
from pipelines.features.video.motion import build_motion_extractor
from pipelines.metrics.probabilities import probabilities
from pipelines.streaming import open_model
from tests.datasets.test_golf import write_golf
from tests.features.made_media import VideoTrackOptions, brightness, write_media
from tests.streaming.made_streams import played, scores_of
from weights.recipes import make_golf_swing, train_motion

CLIPS = [("0.mp4", "p1", "1"), ("1.mp4", "p2", "2"), ("2.mp4", "p1", "3"), ("3.mp4", "p3", "3"), ("4.mp4", "p4", "4")]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_golf(tmp_path, CLIPS)


def test_from_clips_to_a_model_with_its_order(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_motion, "EPOCHS", 2)
    monkeypatch.setattr(train_motion, "BATCH", 2)
    network, maps = tmp_path / "network.safetensors", tmp_path / "maps"
    maps.mkdir()
    for _ in range(2):  # the second time from the maps that were kept
        monkeypatch.setattr("sys.argv", ["train", str(root), str(network), "--fold", "3", "--maps", str(maps)])
        train_motion.main()
    assert sorted(file.name for file in maps.iterdir()) == [f"{number}.mp4.npy" for number in range(4)]
    results = json.loads(network.with_suffix(".json").read_text())
    assert results["all"]["recordings"] == 2 and results["unseen_players"]["recordings"] == 1
    kept = read_predictions(network.with_suffix(".npz"))
    assert kept.videos == ("2.mp4", "3.mp4") and kept.classes == PHASES
    build_motion_extractor(network, False, {})  # it is what the extractor takes
    make_golf_swing.make_golf_swing(tmp_path / "classifier.safetensors", tmp_path / "model.safetensors")
    made = load_checkpoint(tmp_path / "model.safetensors")
    assert made.order is not None and made.order.dwells[0] == pytest.approx(5 / 29.97, abs=1e-3)
    assert made.provenance["source"] == "GolfDB, folds 1, 2: 2 clips at normal speed"


def test_a_piece_is_a_stretch_with_its_phases(root: Path) -> None:
    swing = read_swings(root / "swings.csv")[0]
    clip = train_motion.read_clip(root / "clips" / swing.file, swing, None)
    assert clip.maps.shape == (60, 5, 20, 20) and np.bincount(clip.phases).tolist() == [5, 15, 5, 8, 4, 3, 3, 9, 8]
    maps, phases = train_motion.piece_of(clip, train_motion.random.Random(0))
    assert maps.shape == (train_motion.PIECE, 5, 20, 20)
    assert phases.tolist() == [*clip.phases.tolist(), *[train_motion.SKIPPED] * (train_motion.PIECE - 60)]


def test_what_is_scored_is_what_a_stream_gives(root: Path) -> None:
    swing = read_swings(root / "swings.csv")[0]
    times = [frame / 29.97 for frame in range(swing.frames)]
    options = VideoTrackOptions(size=(160, 160), times=times, picture=brightness)
    path = write_media(root / "clips" / swing.file, options)
    model = open_model("golf-swing")
    classifier = torch.nn.Linear(model.model.config.input_width, len(PHASES))
    classifier.load_state_dict(load_checkpoint(model.files[0]).model.classifier.state_dict())
    network = build_motion_extractor(None, False, {}).network
    clip = train_motion.read_clip(path, swing, None)
    assert model.order is not None
    own, _ = train_motion.predictions_of(network, classifier, [clip], model.order)
    scored = own.scores
    streamed = probabilities(scores_of(played([path], model)), "softmax")
    np.testing.assert_allclose(streamed[train_motion.LAG :], scored, atol=2e-3)  # the maps are float16
