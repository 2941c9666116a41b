"""Calibration and rejection of clip models, in numbers and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cotrans_cli.main import run
from pipelines.checkpoints.checkpoint import save_checkpoint
from pipelines.datasets.mixing.foreign_sound import foreign_sounds
from pipelines.evaluation.scores.honesty import score_honesty
from pipelines.features.request import FeatureRequest
from pipelines.features.stream_factory import StreamFactory
from pipelines.metrics.rejection import Rejection
from pipelines.model import ContinualTransformer, ModelConfig
from tests.features.made_recordings import write_sound


def test_shares() -> None:
    logits = {
        "a": np.array([[0, 0], [4, 0]], np.float32),  # right, kept
        "b": np.array([[9, 9], [0, 4]], np.float32),  # wrong, kept
        "c": np.array([[9, 9], [-9, -8]], np.float32),  # right, turned away
    }
    labels = {"a": 0, "b": 0, "c": 1}
    foreign = [np.array([[9, 9], [-1, -1]], np.float32), np.array([[5, 0]], np.float32)]
    honesty = score_honesty(logits, labels, "softmax", Rejection("energy", 1.0), foreign)
    assert honesty.none == pytest.approx(1 / 3)
    assert honesty.accuracy == pytest.approx(1 / 3)
    assert (honesty.foreign, honesty.foreign_none) == (2, 0.5)
    assert "50.0 % of 2 foreign recordings" in honesty.headline()
    without = score_honesty(logits, labels, "softmax", None)
    assert without.none is None and without.headline().startswith("calibration error")


def test_evaluate_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import soundfile

    for label in ("dog", "rain"):
        for fold in (1, 2):
            write_sound(tmp_path / "clips" / label / f"{fold}-1-A.wav", seconds=1.0, seed=fold)
    (tmp_path / "foreign").mkdir()
    for place, (_, sound, rate) in enumerate(foreign_sounds(1.0, each=1)):
        soundfile.write(tmp_path / "foreign" / f"{place}.wav", sound, rate)
    spec = StreamFactory(FeatureRequest("logmel"), "cpu").prototype().spec
    torch.manual_seed(0)
    config = ModelConfig(spec.width, width=8, heads=2, feed_forward=8, blocks=1, window=4, classes=2)
    model = tmp_path / "model.safetensors"
    save_checkpoint(
        model, ContinualTransformer(config).eval(), ("dog", "rain"), spec, rejection=Rejection("energy", 99.0)
    )
    arguments = ["evaluate", str(model), "--dataset", "folder", "--root", str(tmp_path / "clips"), "--fold", "2"]
    arguments += ["--on", "validation", "--foreign", str(tmp_path / "foreign"), "--cache", str(tmp_path / "cache")]
    assert run([*arguments, "--json"]) == 0
    honesty = json.loads(capsys.readouterr().out)["honesty"]
    assert honesty["none"] == honesty["foreign_none"] == 1.0 and honesty["accuracy"] == 0.0
    assert honesty["foreign"] == len(list((tmp_path / "foreign").iterdir()))
    assert run(arguments) == 0
    assert "calibration error" in capsys.readouterr().out
