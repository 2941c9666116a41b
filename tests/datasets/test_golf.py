"""GolfDB: folds, players, and phases on the clock of the features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.opening import open_dataset
from pipelines.datasets.published.golf import EVENTS, PHASES
from pipelines.datasets.rows.frame_targets import frame_targets
from pipelines.errors import InputError, UsageError
from tests.features.made_media import VideoTrackOptions, write_media

FRAMES = 60
STARTS = (5, 20, 25, 33, 37, 40, 43, 52)


def write_golf(root: Path, clips: list[tuple[str, str, str]], events: tuple[int, ...] = STARTS) -> Path:
    """Clips of 60 frames; (file, player, fold) each."""
    (root / "clips").mkdir()
    times = [frame / 29.97 for frame in range(FRAMES)]
    for file, _, _ in clips:
        write_media(root / "clips" / file, VideoTrackOptions(size=(32, 32), times=times))
    header = f"file,player,source,fold,{','.join(EVENTS)},frames"
    lines = [f"{','.join((file, player, 's1', fold, *map(str, events)))},{FRAMES}" for file, player, fold in clips]
    (root / "swings.csv").write_text("\n".join([header, *lines]) + "\n")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    clips = [("0.mp4", "p1", "1"), ("1.mp4", "p2", "2"), ("2.mp4", "p1", "3"), ("3.mp4", "p3", "4")]
    return write_golf(tmp_path, clips)


def splits(dataset: Dataset) -> dict[str, str]:
    return {item.name: item.split for item in dataset.items}


def test_folds_are_kept_apart(root: Path) -> None:
    assert splits(open_dataset("golf", root)) == {"0": "train", "1": "train", "2": "train", "3": "test"}
    kept = open_dataset("golf", root, fold="1")
    assert splits(kept) == {"0": "validation", "1": "train", "2": "train", "3": "test"}
    assert kept.class_names == PHASES and kept.ordered and kept.kind == "frames"


def test_players_can_be_kept_apart_too(root: Path) -> None:
    apart = open_dataset("golf", root, fold="1", split="players")
    assert splits(apart) == {"0": "validation", "1": "train", "3": "test"}  # 2 has the player of 0
    assert "1 clips of players" in apart.problems[0]


@pytest.mark.parametrize("rate", [29.97, 30.0, 25.0])
def test_phases_begin_with_their_events(root: Path, rate: float) -> None:
    dataset = open_dataset("golf", root)
    targets = frame_targets(dataset, dataset.items[0], int(FRAMES / 29.97 * rate), 1 / rate).targets
    named = targets.argmax(axis=1)
    assert (np.diff(named) >= 0).all() and targets.sum() == len(targets)
    begins = np.searchsorted(named, np.arange(1, len(PHASES)))
    expected = np.array(STARTS) * rate / 29.97
    np.testing.assert_allclose(begins, expected, atol=1.0)
    if rate == 29.97:
        np.testing.assert_array_equal(begins, STARTS)


def test_what_is_wrong_is_one_line(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no clips of fold '7'"):
        open_dataset("golf", root, fold="7")
    with pytest.raises(UsageError, match="for validation and for test"):
        open_dataset("golf", root, fold="4")
    with pytest.raises(UsageError, match="no split 'views'"):
        open_dataset("golf", root, split="views")
    (root / "clips" / "0.mp4").unlink()
    (root / "clips" / "1.mp4").write_bytes(b"nothing")
    damaged = open_dataset("golf", root)
    assert splits(damaged) == {"2": "train", "3": "test"}
    assert "not in clips/" in damaged.problems[0] and "damaged" in damaged.problems[1]
    table = root / "swings.csv"
    table.write_text(table.read_text().replace(",33,37,", ",37,33,"))
    with pytest.raises(InputError, match="line 2: the events must follow each other"):
        open_dataset("golf", root)
    table.write_text("file,player\n0.mp4,p1\n")
    with pytest.raises(InputError, match="no column fold, address"):
        open_dataset("golf", root)


def test_the_real_clips(shared_dir: Path) -> None:
    dataset = open_dataset("golf", shared_dir / "golf", fold="2", split="players")
    counts = {split: len(dataset.split(split)) for split in dataset.splits}
    assert counts["validation"] == 188 and "test" not in counts
    validated = {item.group for item in dataset.split("validation")}
    assert not validated & {item.group for item in dataset.split("train")}
