"""The comparison of frozen features with a network that learns: it runs as it stands, on rows of the real network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.features.media import decode
from pipelines.features.media.info import VideoFrame
from pipelines.features.video.efficientnet import EfficientNetLite0
from pipelines.features.video.extractors import NetworkExtractor
from pipelines.features.video.factory import build_video_extractor
from tests.datasets.test_golf import write_golf
from weights.recipes import golf_frozen, train_motion

CLIPS = [(f"{number}.mp4", f"p{number}", fold) for number, fold in enumerate(["1", "1", "2", "2", "3", "4"])]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One clip of two, small pictures and one epoch."""
    for module in (golf_frozen, train_motion):
        monkeypatch.setattr(module, "EPOCHS", 1)
        monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(golf_frozen, "EVERY", 2)
    monkeypatch.setattr(golf_frozen, "SIDE", 32)


@pytest.mark.usefixtures("few")
def test_every_head_is_scored_on_the_fold_that_was_kept_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, target = write_golf(tmp_path, CLIPS), tmp_path / "frozen.json"
    folders = {name: tmp_path / name for name in ("maps", "rows")}
    for folder in folders.values():
        folder.mkdir()
    given = [str(root), str(target), "--seeds", "3", *(f"--{name}={folder}" for name, folder in folders.items())]
    monkeypatch.setattr("sys.argv", ["golf_frozen", *given])
    golf_frozen.main()
    results = json.loads(target.read_text())
    assert results["clips"] == [2, 1]  # of folds 2 and 3, and of fold 1
    assert list(results["seeds"]) == ["3"] and list(results["seeds"]["3"]) == ["linear", "transformer", "motion"]
    assert all(0 <= value <= 100 for scores in results["seeds"]["3"].values() for value in scores)
    kept = np.load(folders["rows"] / "0.mp4.npy")
    assert sorted(file.name for file in folders["rows"].iterdir()) == ["0.mp4.npy", "2.mp4.npy", "4.mp4.npy"]
    extractor = build_video_extractor("efficientnet_lite0")
    assert isinstance(extractor, NetworkExtractor) and isinstance(extractor.network, EfficientNetLite0)
    pictures = decode(root / "clips" / "0.mp4", audio=False, video=True)
    frames = [frame for frame in pictures if isinstance(frame, VideoFrame)]
    with torch.inference_mode():
        expected = extractor.network.embed(golf_frozen.prepared(frames[7].image))[0].numpy()
    np.testing.assert_allclose(kept[7], expected, atol=2e-3 * np.abs(expected).max())  # kept in 16 bits


@pytest.mark.usefixtures("few")
def test_pictures_of_another_size_are_refused() -> None:
    with pytest.raises(SystemExit, match="32 × 32"):
        golf_frozen.prepared(np.zeros((40, 32, 3), np.uint8))


def test_a_piece_that_is_too_short_ends_with_its_last_row() -> None:
    rows = np.arange(10, dtype=np.float32)[:, None]
    found = golf_frozen.piece(rows, 4)
    assert found.shape == (golf_frozen.PIECE, 1)
    assert found[:6, 0].tolist() == [4, 5, 6, 7, 8, 9] and set(found[6:, 0]) == {9.0}
