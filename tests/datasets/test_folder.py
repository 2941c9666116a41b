"""A user's own clips: labels, splits, groups, damaged files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.opening import open_dataset
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.errors import InputError, UsageError
from tests.datasets.dataset_builders import write_features, write_sound


def write_clips(root: Path, labels: tuple[str, ...] = ("cat", "dog"), count: int = 10) -> None:
    for label in labels:
        for number in range(count):
            write_sound(root / label / f"{number % 5 + 1}-{number:03d}.wav", seconds=0.2)


def splits(dataset: Dataset) -> dict[str, str]:
    return {item.name: item.split for item in dataset.items}


@pytest.mark.parametrize("place", ["clips", ""])
def test_labels_are_folder_names(place: str, tmp_path: Path) -> None:
    write_clips(tmp_path / place, count=5)
    write_sound(tmp_path / place / "dog" / "big" / "9-1.flac", seconds=0.2)
    dataset = open_dataset("folder", tmp_path)
    assert dataset.class_names == ("cat", "dog") and dataset.kind == "clips"
    assert {item.name: item.label for item in dataset.items}["dog/big/9-1"] == 1
    assert dataset.splits == ("train", "validation")
    ordered = open_dataset("folder", tmp_path, classes=("dog", "cat"))
    assert {item.name: item.label for item in ordered.items}["dog/big/9-1"] == 0


def test_new_files_do_not_move_old_ones(tmp_path: Path) -> None:
    write_clips(tmp_path, count=30)
    before = splits(open_dataset("folder", tmp_path, validation=0.3, test=0.2))
    assert {split: list(before.values()).count(split) for split in ("train", "validation", "test")} == {
        "train": 35,
        "validation": 18,
        "test": 7,
    }
    write_clips(tmp_path, count=45)
    after = splits(open_dataset("folder", tmp_path, validation=0.3, test=0.2))
    assert {name: after[name] for name in before} == before
    assert splits(open_dataset("folder", tmp_path, validation=0.3, test=0.2, split_seed=1)) != after


def test_every_class_of_a_small_folder_has_something_to_validate_on(tmp_path: Path) -> None:
    write_clips(tmp_path, labels=tuple("abcdefgh"), count=2)
    dataset = open_dataset("folder", tmp_path, validation=0.1)
    for split in ("train", "validation"):
        assert {item.label for item in dataset.split(split)} == set(range(8))


def test_split_folders_decide(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        write_clips(tmp_path / split, count=2)
    dataset = open_dataset("folder", tmp_path)
    assert splits(dataset)["val/cat/1-000"] == "validation" and dataset.class_names == ("cat", "dog")
    assert [len(dataset.split(split)) for split in dataset.splits] == [4, 4, 4]
    with pytest.raises(UsageError, match="--validation does not go with it"):
        open_dataset("folder", tmp_path, validation=0.2)
    with pytest.raises(UsageError, match="--fold and --test do not go with it"):
        open_dataset("folder", tmp_path, fold="1")


def test_validation_out_of_the_training_folder(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_clips(tmp_path / split, count=10)
    dataset = open_dataset("folder", tmp_path, validation=0.3)
    assert all(item.split == "test" for item in dataset.items if item.name.startswith("test/"))
    assert 2 <= len(dataset.split("validation")) < 12


def test_a_fold_of_the_file_names(tmp_path: Path) -> None:
    write_clips(tmp_path)
    dataset = open_dataset("folder", tmp_path, fold=4, test_fold="5")  # a recipe has a number
    for name, split in splits(dataset).items():
        fold = name.split("/")[1][0]
        assert split == {"4": "validation", "5": "test"}.get(fold, "train")
    with pytest.raises(UsageError, match="no items of group '9': the groups are 1, 2, 3, 4, 5"):
        open_dataset("folder", tmp_path, fold="9")
    with pytest.raises(UsageError, match="--validation does not go with it"):
        open_dataset("folder", tmp_path, fold="4", validation=0.1)
    with pytest.raises(UsageError, match="cannot be for validation and for test"):
        open_dataset("folder", tmp_path, fold="4", test_fold="4")


def test_groups_are_never_divided(tmp_path: Path) -> None:
    for speaker in ("ann", "bob", "eve", "joe", "kim", "lee"):
        for take in range(4):
            write_sound(tmp_path / "yes" / f"{speaker}_{take}.wav", seconds=0.2)
            write_sound(tmp_path / "no" / f"{speaker}_{take}.wav", seconds=0.2)
    dataset = open_dataset("folder", tmp_path, group=r"/(\w+)_\d+$", validation=0.3)
    by_group: dict[str | None, set[str]] = {}
    for item in dataset.items:
        by_group.setdefault(item.group, set()).add(item.split)
    assert len(by_group) == 6 and all(len(splits) == 1 for splits in by_group.values())
    assert dataset.splits == ("train", "validation")
    held = open_dataset("folder", tmp_path, group=r"/(\w+)_\d+$", fold="eve")
    assert {item.group for item in held.split("validation")} == {"eve"}
    with pytest.raises(UsageError, match="is not a regular expression"):
        open_dataset("folder", tmp_path, group="(")
    with pytest.raises(UsageError, match=r"--group 'x\+' does not match"):
        open_dataset("folder", tmp_path, group="x+")


def test_damaged_and_other_files(tmp_path: Path) -> None:
    write_clips(tmp_path, count=4)
    (tmp_path / "cat/broken.mp4").write_bytes(b"no video at all")
    (tmp_path / "cat/cut.wav").write_bytes((tmp_path / "cat/1-000.wav").read_bytes()[:20])
    (tmp_path / "cat/readme.txt").write_text("x")
    dataset = open_dataset("folder", tmp_path)
    assert len(dataset.items) == 8
    for text in ("damaged, left out", "broken.mp4", "cut.wav", "not media, left out: readme.txt"):
        assert any(text in problem for problem in dataset.problems), text
    assert all("\n" not in problem for problem in dataset.problems)


def test_a_label_without_clips(tmp_path: Path) -> None:
    write_clips(tmp_path, count=2)
    (tmp_path / "bird").mkdir()
    with pytest.raises(InputError, match="the label 'bird' occurs in no split"):
        open_dataset("folder", tmp_path)
    (tmp_path / "bird").rmdir()
    with pytest.raises(InputError, match="the label 'fish' occurs in no split"):
        open_dataset("folder", tmp_path, classes=("cat", "dog", "fish"))
    with pytest.raises(InputError, match="folders that are no class in --classes: dog"):
        open_dataset("folder", tmp_path, classes=("cat",))
    with pytest.raises(InputError, match="no label folders in"):
        open_dataset("folder", tmp_path / "cat")
    with pytest.raises(UsageError, match="--multi-label is for recordings with a table of events"):
        open_dataset("folder", tmp_path, multi_label=True)


def test_the_hop_of_clips_is_that_of_their_feature_files(tmp_path: Path) -> None:
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        np.save(tmp_path / label / "1.npy", np.zeros((4, 3), np.float32))
    assert open_dataset("folder", tmp_path, hop=0.5, validation=0.0).hop == 0.5
    for wrong in (0, -1.0, float("inf")):
        with pytest.raises(UsageError, match="--hop must be a number of seconds from 1e-06 to 1e"):
            open_dataset("folder", tmp_path, hop=wrong)


def test_the_same_name_twice(tmp_path: Path) -> None:
    write_clips(tmp_path, count=2)
    write_sound(tmp_path / "cat/1-000.flac", seconds=0.2)
    with pytest.raises(InputError, match="two clips with the same name"):
        open_dataset("folder", tmp_path)


def test_a_label_that_only_validation_has_is_a_problem(tmp_path: Path) -> None:
    write_clips(tmp_path / "train", labels=("cat",), count=2)
    write_clips(tmp_path / "validation", count=2)
    assert open_dataset("folder", tmp_path).problems == ("labels without a training clip: dog",)


def test_features_in_place_of_clips(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        for number in range(3):
            write_features(tmp_path / "clips" / label / f"{number}.npy", 12, 4, dtype="float16")
            write_features(tmp_path / "clips" / label / f"{number}.times.npy", 12, 1)
    dataset = open_dataset("folder", tmp_path)
    assert len(dataset.items) == 6 and all(item.features for item in dataset.items)
    rows = open_rows(dataset.items[0])
    assert rows.shape == (12, 4) and rows[:3].dtype == "float32"
    write_sound(tmp_path / "clips/cat/9.wav")
    with pytest.raises(InputError, match="features for some items and not for others: cat/9 have none"):
        open_dataset("folder", tmp_path)


def test_the_specification_beside_the_features(tmp_path: Path) -> None:
    write_clips(tmp_path / "clips", count=2)
    spec = {
        "parts": [{"name": "logmel", "kind": "audio", "width": 4, "window": 1.0, "options": {}, "weights": None}],
        "hop": 0.1,
        "align": "causal",
    }
    source = {"path": "x.wav", "size": 1, "fingerprint": "0", "duration": 1.0}
    manifest = {"format": "cotrans-features", "version": 1, "layout": "npy", "rows": 2, "dtype": "float32", "notes": []}
    for item in open_dataset("folder", tmp_path).items:
        path = write_features(tmp_path / "features" / f"{item.name}.npy", 2, 4)
        path.with_suffix(".json").write_text(json.dumps({**manifest, "spec": spec, "source": source}))
    dataset = open_dataset("folder", tmp_path, feature_dir=tmp_path / "features")
    assert dataset.hop == 0.1 and dataset.spec is not None and dataset.spec.name == "logmel"
    other = {**manifest, "spec": {**spec, "hop": 0.2}, "source": source}
    (tmp_path / "features/dog/1-000.json").write_text(json.dumps(other))
    with pytest.raises(InputError, match="were made in different ways"):
        open_dataset("folder", tmp_path, feature_dir=tmp_path / "features")


@pytest.mark.shared
def test_esc10_by_folds(shared_dir: Path) -> None:
    for fold in "1234":
        dataset = open_dataset("folder", shared_dir / "esc10", fold=fold)
        assert [len(dataset.split(split)) for split in dataset.splits] == [240, 80]
        assert {Path(item.name).name[0] for item in dataset.split("validation")} == {fold}
    assert len(dataset.class_names) == 10 and dataset.problems == ()
