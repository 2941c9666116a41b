"""GTZAN: folders, formats, splits, damaged clips."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.opening import open_dataset
from pipelines.datasets.published.gtzan import GENRES
from pipelines.datasets.published.gtzan_folds import fold_of_clips
from pipelines.datasets.published.shipped import shipped_list
from pipelines.errors import InputError, UsageError
from tests.datasets.dataset_builders import write_features, write_sound


def write_clips(folder: Path, suffix: str = ".wav", count: int = 10) -> None:
    for genre in GENRES:
        for number in range(count):
            write_sound(folder / genre / f"{genre}.{number:05d}{suffix}", seconds=1.1)


def names(dataset: Dataset, split: str) -> set[str]:
    return {item.name for item in dataset.items if item.split == split}


@pytest.mark.parametrize(
    ("folder", "suffix"),
    [("genres", ".au"), ("genres_original", ".wav"), ("Data/genres_original", ".ogg"), ("", ".flac")],
)
def test_the_layouts_that_people_have(folder: str, suffix: str, tmp_path: Path) -> None:
    write_clips(tmp_path / folder, suffix, count=1)
    dataset = open_dataset("gtzan", tmp_path)
    assert dataset.class_names == GENRES and dataset.kind == "clips"
    assert [item.name for item in dataset.items] == [f"{genre}.00000" for genre in GENRES]
    assert [item.label for item in dataset.items] == list(range(10))
    assert all(
        item.media and not item.features and item.duration == pytest.approx(1.1, abs=0.01) for item in dataset.items
    )
    assert dataset.problems == ()


def test_random_split_is_seeded_and_exact(tmp_path: Path) -> None:
    write_clips(tmp_path / "genres")
    first, again = (open_dataset("gtzan", tmp_path, split_seed=3) for _ in range(2))
    assert first == again
    assert [len(names(first, split)) for split in ("train", "validation", "test")] == [80, 10, 10]
    other = open_dataset("gtzan", tmp_path, split_seed=4)
    assert names(other, "test") != names(first, "test")
    wider = open_dataset("gtzan", tmp_path, split_seed=3, validation=0.18)
    assert [len(names(wider, split)) for split in ("train", "validation", "test")] == [72, 18, 10]
    assert names(wider, "test") == names(first, "test")


def test_damaged_and_strange_files_are_reported_and_left_out(tmp_path: Path) -> None:
    write_clips(tmp_path / "genres", count=2)
    (tmp_path / "genres/jazz/jazz.00000.wav").write_bytes(b"RIFF" + bytes(100))
    (tmp_path / "genres/jazz/jazz.00001.wav").write_bytes(b"")
    (tmp_path / "genres/rock/notes.txt").write_text("x")
    write_sound(tmp_path / "genres/pop/pop.00001.ogg")
    write_sound(tmp_path / "genres/metal/metal.00001.wav", seconds=0.2)
    dataset = open_dataset("gtzan", tmp_path)
    assert len(dataset.items) == 17
    assert (
        next(item for item in dataset.items if item.name == "pop.00001").media == tmp_path / "genres/pop/pop.00001.wav"
    )
    for text in ("jazz.00000.wav", "jazz.00001.wav", "notes.txt", "pop.00001 is there twice", "too short"):
        assert any(text in problem for problem in dataset.problems), text


def test_fault_filtered_says_what_is_missing(tmp_path: Path) -> None:
    for number in (0, 29):  # one of the validation and one of the training list
        write_sound(tmp_path / f"genres/blues/blues.{number:05d}.wav", seconds=1.1)
    dataset = open_dataset("gtzan", tmp_path, split="fault-filtered")
    assert names(dataset, "train") == {"blues.00029"} and names(dataset, "validation") == {"blues.00000"}
    for text in ("442 of the 443 clips of the train list", "290 of the 290 clips of the test list are not in"):
        assert any(text in problem for problem in dataset.problems), text
    assert any("no folder for the genre 'rock'" in problem for problem in dataset.problems)
    with pytest.raises(InputError, match=r"'test' has no items; there are: train \(1\), validation \(1\)"):
        dataset.split("test")


def test_wrong_roots_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"the folder .*absent does not exist\. It should contain genres/GENRE"):
        open_dataset("gtzan", tmp_path / "absent")
    with pytest.raises(InputError, match=r"no genre folders in .* It should contain"):
        open_dataset("gtzan", tmp_path)
    with pytest.raises(UsageError, match="give its folder with --root"):
        open_dataset("gtzan")
    with pytest.raises(UsageError, match=r"there is no dataset 'gtzam'; did you mean 'gtzan'"):
        open_dataset("gtzam", tmp_path)
    for wrong, message in (
        ({"validation": "many"}, "--validation must be a finite number, not 'many'"),
        ({"validation": float("nan")}, "--validation must be a finite number"),
        ({"split_seed": 1.5}, "--split-seed must be a whole number, not 1.5"),
        ({"split_seed": True}, "--split-seed must be a whole number, not True"),
    ):
        with pytest.raises(UsageError, match=message):
            open_dataset("gtzan", tmp_path, **wrong)
    with pytest.raises(UsageError, match="dataset gtzan has no option --group; it has --split, --validation"):
        open_dataset("gtzan", tmp_path, group="1")
    with pytest.raises(UsageError, match="gtzan has no split 'x': choose from random, fault-filtered"):
        open_dataset("gtzan", tmp_path, split="x")
    with pytest.raises(UsageError, match="is a fixed list: --validation does not go with it"):
        open_dataset("gtzan", tmp_path, split="fault-filtered", validation=0.2)
    write_clips(tmp_path / "gtzan/genres", count=2)
    with pytest.raises(UsageError, match="fractions"):
        open_dataset("gtzan", tmp_path / "gtzan", validation=0.95)
    monkeypatch.setenv("COTRANS_DATA", str(tmp_path))
    assert len(open_dataset("gtzan").items) == 20


def test_features_from_a_folder(tmp_path: Path) -> None:
    write_clips(tmp_path / "genres", count=1)
    for genre in GENRES[:9]:
        write_features(tmp_path / "features" / genre / f"{genre}.00000.npy", 120, 8)
    dataset = open_dataset("gtzan", tmp_path, feature_dir=tmp_path / "features")
    assert len(dataset.items) == 9 and dataset.items[0].features
    assert dataset.problems == (f"1 items have no features in {tmp_path / 'features'}: rock.00000",)
    with pytest.raises(InputError, match="no features in"):
        open_dataset("gtzan", tmp_path, feature_dir=tmp_path / "genres")
    with pytest.raises(InputError, match="does not exist"):
        open_dataset("gtzan", tmp_path, feature_dir=tmp_path / "absent")


@pytest.mark.shared
def test_the_real_clips(shared_dir: Path) -> None:
    dataset = open_dataset("gtzan", shared_dir / "gtzan", split="fault-filtered")
    assert {split: len(dataset.split(split)) for split in dataset.splits} == {"train": 443, "validation": 197}
    assert len(dataset.problems) == 1 and "290 of the 290 clips of the test list" in dataset.problems[0]
    assert all(item.duration is not None and 29 < item.duration < 31 for item in dataset.items)
    again = open_dataset("gtzan", shared_dir / "gtzan")
    assert [len(again.split(split)) for split in again.splits] == [512, 64, 64]


def test_folds_divide_the_clips_that_are_not_for_test(tmp_path: Path) -> None:
    lists = shipped_list("gtzan_fault_filtered")
    folds = fold_of_clips(lists)
    assert sorted(folds) == sorted([*lists["train"], *lists["validation"]])
    for fold in "12345":
        assert {clip.partition(".")[0] for clip in folds if folds[clip] == fold} == set(GENRES)
    assert {folds[clip] for clip in lists["train"]} == {*"123"}  # the two lists share no artist
    assert {folds[clip] for clip in lists["validation"]} == {*"45"}
    for clip in (*lists["train"][:3], *lists["validation"][:3], lists["test"][0]):
        write_sound(tmp_path / "genres" / clip.partition(".")[0] / f"{clip}.wav", seconds=1.1)
    for fold in "12345":
        dataset = open_dataset("gtzan", tmp_path, split="fault-filtered", fold=fold)
        assert all(item.group == folds.get(item.name) for item in dataset.items)  # what is left out together
        assert names(dataset, "test") == {lists["test"][0]}
        assert names(dataset, "validation") == {
            clip for clip in (*lists["train"][:3], *lists["validation"][:3]) if folds[clip] == fold
        }
    with pytest.raises(UsageError, match="no fold '6': choose from 1, 2, 3, 4, 5"):
        open_dataset("gtzan", tmp_path, split="fault-filtered", fold="6")
    with pytest.raises(UsageError, match="for the fault-filtered split"):
        open_dataset("gtzan", tmp_path, fold="1")
