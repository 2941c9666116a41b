"""TVSeries: the original annotation at any feature rate, 30 classes apart from background."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.opening import open_dataset
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.datasets.rows.frame_targets import frame_targets
from pipelines.errors import InputError, UsageError
from tests.datasets.dataset_builders import write_features

PROPERTIES = "\t1\t0\t0\t0\t0\t1\t0\t0\t0\t0\t0\t0\tdrinks café"
PICK, POINT, DRINK = 1, 2, 3


def write_annotation(root: Path) -> None:
    """A line per instance; the first line is one too, and two instances overlap."""
    files = {
        "GT-train.txt": [("24_ep1", "Pick something up", 1.0, 2.0), ("24_ep1", "Point", 1.5, 2.6)],
        "GT-val.txt": [("Mad_Men_ep2", "Fall/trip", 0.0, 1.0), ("Mad_Men_ep2", "drink", 3.01, 3.02)],
        "GT-test.txt": [("24_ep4", "Fire weapon", 2.0, 4.0)],
    }
    root.mkdir(exist_ok=True)
    for name, lines in files.items():
        text = "".join(f"{episode}\t{label}\t{start}\t{end}{PROPERTIES}\n" for episode, label, start, end in lines)
        (root / name).write_bytes(text.encode("latin-1"))


@pytest.mark.parametrize(
    ("hop", "pick", "point"), [(0.2, (5, 10), (7, 13)), (0.25, (4, 8), (6, 10)), (0.5, (2, 4), (3, 5))]
)
def test_times_in_seconds_fit_any_rate(
    hop: float, pick: tuple[int, int], point: tuple[int, int], tmp_path: Path
) -> None:
    write_annotation(tmp_path)
    write_features(tmp_path / "features/24_ep1.npy", round(5 / hop), 4)
    dataset = open_dataset("tvseries", tmp_path, feature_dir=tmp_path / "features", hop=hop)
    assert len(dataset.class_names) == 31 and len(dataset.scored_classes) == 30 and dataset.multi_label
    (item,) = dataset.items
    targets = frame_targets(dataset, item, len(open_rows(item))).targets
    assert np.flatnonzero(targets[:, PICK]).tolist() == list(range(*pick))
    assert np.flatnonzero(targets[:, POINT]).tolist() == list(range(*point))
    busy = set(range(*pick)) | set(range(*point))
    assert np.flatnonzero(targets[:, 0]).tolist() == [row for row in range(len(targets)) if row not in busy]


def test_splits(tmp_path: Path) -> None:
    write_annotation(tmp_path / "annotations")
    (tmp_path / "annotations").rename(tmp_path / "annotation")
    oad = open_dataset("tvseries", tmp_path)
    assert {item.name: item.split for item in oad.items} == {
        "24_ep1": "train",
        "Mad_Men_ep2": "train",
        "24_ep4": "test",
    }
    original = open_dataset("tvseries", tmp_path, split="original")
    assert {item.name: item.split for item in original.items}["Mad_Men_ep2"] == "validation"
    assert "24 episodes have no annotation, left out: 24_ep2" in oad.problems[0]
    with pytest.raises(UsageError, match="tvseries has no split 'x'"):
        open_dataset("tvseries", tmp_path, split="x")
    short = frame_targets(oad, next(item for item in oad.items if item.name == "Mad_Men_ep2"), 20, 0.25)
    assert np.flatnonzero(short.targets[:, DRINK]).tolist() == [12], "a short event is not lost"


def test_both_feature_layouts_and_per_frame_targets(tmp_path: Path) -> None:
    write_annotation(tmp_path / "texts")
    features = {name: np.random.default_rng(0).normal(size=(30, 5)).astype("f4") for name in ("24_ep1", "24_ep4")}
    with (tmp_path / "texts/tvseries_kin.pickle").open("wb") as file:
        pickle.dump({name: {"rgb": array, "flow": array[:, :2]} for name, array in features.items()}, file)
    oadtr = open_dataset("tvseries", tmp_path / "texts")
    assert oadtr.hop == 0.2 and [item.name for item in oadtr.items] == ["24_ep1", "24_ep4"]
    targets = np.zeros((28, 31), dtype=np.float32)
    targets[:, 0] = 1
    for name, array in features.items():
        for folder in ("rgb_kinetics_resnet50", "flow_kinetics_bninception", "target_perframe"):
            (tmp_path / "lstr" / folder).mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "lstr/rgb_kinetics_resnet50" / f"{name}.npy", array)
        np.save(tmp_path / "lstr/flow_kinetics_bninception" / f"{name}.npy", array[:, :2])
        np.save(tmp_path / "lstr/target_perframe" / f"{name}.npy", targets)
    lstr = open_dataset("tvseries", tmp_path / "lstr")
    assert lstr.hop == 0.25
    for one, two in zip(oadtr.items, lstr.items, strict=True):
        assert np.array_equal(open_rows(one)[:], open_rows(two)[:])
        assert open_rows(one).width == 7
    assert len(frame_targets(lstr, lstr.items[0], 30)) == 28


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("24_ep1\tPoint\t5\t4", r"GT-test\.txt, line 2: the action ends \(4 s\) before it starts \(5 s\)"),
        ("24_ep1\tPoynt\t4\t5", r"GT-test\.txt, line 2: unknown class 'Poynt'; did you mean 'Point'"),
        ("24_ep1\tbackground\t4\t5", r"GT-test\.txt, line 2: unknown class 'background'"),
        ("24_ep1\tPoint\tone\t5", r"GT-test\.txt, line 2: times must be seconds, not 'one' and '5'"),
        ("24_ep1\tPoint\tnan\t5", r"GT-test\.txt, line 2: times must be seconds"),
        ("24_ep1 Point 4 5", r"GT-test\.txt, line 2: expected episode, class, start, end separated by tabs"),
    ],
)
def test_a_bad_line_is_named(line: str, message: str, tmp_path: Path) -> None:
    write_annotation(tmp_path)
    (tmp_path / "GT-test.txt").write_text(f"episode\tclass\tstart\tend\n{line}\n")
    with pytest.raises(InputError, match=message):
        open_dataset("tvseries", tmp_path)


def test_what_is_not_there_or_not_right(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no annotations in .*GT-train\.txt"):
        open_dataset("tvseries", tmp_path)
    (tmp_path / "tvseries_anno.pickle").write_bytes(pickle.dumps({"24_ep1": np.zeros((5, 31), dtype=bool)}))
    with pytest.raises(InputError, match="mix its first class with background; use the original"):
        open_dataset("tvseries", tmp_path)
    (tmp_path / "GT-train.txt").write_text("Friends_ep1\tPoint\t1\t2\n24_ep1\tPoint\t1\t2\n")
    problems = open_dataset("tvseries", tmp_path).problems
    for text in ("GT-val.txt is not there", "GT-test.txt is not there", "in no split, left out: Friends_ep1"):
        assert any(text in problem for problem in problems), text
