"""What scores mean is said once, in the checkpoint: training decides, and every command goes by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotrans_cli.main import run
from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.metrics.probabilities import ScoreKind, probabilities
from tests.evaluation.evaluation_problems import LABELS, write_clips

Output = pytest.CaptureFixture[str]
SMALL = ("--model", "cotrans-b1", "--window", "6", "--epochs", "1", "--batch-size", "6")
SMALLER = (*SMALL, "-s", "model.width=8", "-s", "model.heads=2", "-s", "model.feed_forward=8")


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COTRANS_CONFIG", str(tmp_path / "config.toml"))


def cotrans(*arguments: object) -> int:
    return run(list(map(str, arguments)))


def streamed(capsys: Output, model: Path, clip: Path, *options: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert (
        cotrans("stream", clip, "--model", model, "--fast", "-f", "jsonl", "--scores", "--top-k", len(LABELS), *options)
        == 0
    )
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(("loss", "kind"), [("binary", "sigmoid"), ("cross-entropy", "softmax")])
def test_a_clip_model_means_the_same_in_stream_and_evaluate(
    loss: str, kind: ScoreKind, tmp_path: Path, capsys: Output
) -> None:
    root, trained = write_clips(tmp_path / "clips"), tmp_path / "run"
    data = ("--dataset", "folder", "--root", root)
    assert cotrans("train", *data, *SMALLER, "-s", f"training.loss={loss}", "--out", trained) == 0
    model = trained / "best.safetensors"
    assert load_checkpoint(model).score_kind == kind
    saved = tmp_path / "predictions.npz"
    assert cotrans("evaluate", *data, "-c", model, "--on", "test", "--save", saved, "--json") == 0
    clip = root / "test" / "cat" / "cat0.npy"
    lines = streamed(capsys, model, clip)
    meant = probabilities(np.array([line["scores"] for line in lines]), kind)
    np.testing.assert_allclose([[dict(line["top"])[name] for name in LABELS] for line in lines], meant, atol=2e-6)
    with np.load(saved) as predictions:
        name = next(name for name in predictions["video"] if str(name).endswith("cat0"))
        np.testing.assert_allclose(predictions["scores"][predictions["video"] == name], meant, atol=2e-6)
    # A copy with other class names is another file of the same model.
    names, renamed = tmp_path / "names.txt", tmp_path / "renamed.safetensors"
    names.write_text("a\nb\nc\n")
    assert cotrans("convert", model, "-o", renamed, "--labels", names) == 0
    assert load_checkpoint(renamed).score_kind == kind
    other: ScoreKind = "softmax" if kind == "sigmoid" else "sigmoid"
    forced = [[score for _, score in line["top"]] for line in streamed(capsys, model, clip, "--activation", other)]
    np.testing.assert_allclose(
        forced, -np.sort(-probabilities(np.array([x["scores"] for x in lines]), other)), atol=2e-6
    )
