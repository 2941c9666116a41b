"""THUMOS14 in both layouts: the same labels and features, memory-mapped."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.opening import open_dataset
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.datasets.rows.frame_targets import frame_targets
from pipelines.errors import InputError, UsageError
from tests.datasets.dataset_builders import prototype_features, write_features, write_thumos_lstr, write_thumos_oadtr

ANET = {"rgb": 6, "flow": 3}  # stands for 2048 + 1024
AUDIO = {"rgb": 6, "flow": 6, "audio": 8}  # stands for 2048 + 2048 + 4096


def check(dataset: Dataset, expected: dict[str, dict[str, np.ndarray]], widths: dict[str, int]) -> None:
    assert dataset.splits == ("train", "test")
    assert len(dataset.class_names) == 22 and dataset.background == 0 and dataset.ignored == (21,)
    assert dataset.scored_classes == tuple(range(1, 21))
    for split, videos in expected.items():
        assert [item.name for item in dataset.split(split)] == list(videos)
        for item in dataset.split(split):
            rows = open_rows(item)
            array = videos[item.name]
            joined = [prototype_features(array, width, seed=len(array)) for width in widths.values()]
            assert np.array_equal(rows[:], np.concatenate(joined, axis=1))
            assert np.array_equal(rows[5:9], np.concatenate(joined, axis=1)[5:9])
            assert all(isinstance(part, np.memmap) for part in rows.parts)
            targets = frame_targets(dataset, item, len(rows))
            assert np.array_equal(targets.targets, array)
            assert np.array_equal(targets.valid, array.argmax(axis=1) != 21)


@pytest.mark.parametrize("widths", [ANET, AUDIO])
@pytest.mark.parametrize("protocol", [2, 4])
def test_the_oadtr_layout(widths: dict[str, int], protocol: int, tmp_path: Path) -> None:
    expected = write_thumos_oadtr(tmp_path, widths, protocol=protocol)
    dataset = open_dataset("thumos14", tmp_path)
    check(dataset, expected, widths)
    assert dataset.hop == 0.2


@pytest.mark.parametrize("widths", [ANET, AUDIO])
def test_the_lstr_layout(widths: dict[str, int], tmp_path: Path) -> None:
    expected = write_thumos_lstr(tmp_path, widths)
    dataset = open_dataset("thumos14", tmp_path)
    check(dataset, expected, widths)
    assert dataset.hop == 0.25


def test_some_parts_only_and_in_another_order(tmp_path: Path) -> None:
    write_thumos_oadtr(tmp_path, AUDIO)
    item = open_dataset("thumos14", tmp_path, parts=("audio", "rgb")).items[0]
    everything = open_rows(open_dataset("thumos14", tmp_path).items[0])[:]
    assert np.array_equal(open_rows(item)[:], np.concatenate([everything[:, 12:], everything[:, :6]], axis=1))
    with pytest.raises(InputError, match="no 'depth' features; there are: audio, flow, rgb"):
        open_dataset("thumos14", tmp_path, parts=("depth",))


def test_several_feature_sets_need_a_choice(tmp_path: Path) -> None:
    write_thumos_oadtr(tmp_path, ANET)
    expected = write_thumos_oadtr(tmp_path, AUDIO, name="thumos_kin_plus_audio_{}.pickle")
    with pytest.raises(UsageError, match=r"several feature sets \(thumos_anet, thumos_kin_plus_audio\): choose with"):
        open_dataset("thumos14", tmp_path)
    check(open_dataset("thumos14", tmp_path, feature_set="kin"), expected, AUDIO)
    kinetics = write_thumos_oadtr(tmp_path, {"rgb": 6, "flow": 6}, name="thumos_kin_{}.pickle")
    check(open_dataset("thumos14", tmp_path, feature_set="kin"), kinetics, {"rgb": 6, "flow": 6})
    check(open_dataset("thumos14", tmp_path, feature_set="audio"), expected, AUDIO)


def test_pickles_are_converted_once_and_again_when_they_change(tmp_path: Path, own_cache: Path) -> None:
    write_thumos_oadtr(tmp_path, ANET)
    first = open_dataset("thumos14", tmp_path)
    stamps = {path: path.stat().st_mtime_ns for path in own_cache.rglob("*.npy")}
    assert stamps and not list(own_cache.rglob("*.part"))
    assert open_dataset("thumos14", tmp_path) == first
    assert {path: path.stat().st_mtime_ns for path in own_cache.rglob("*.npy")} == stamps
    write_thumos_oadtr(tmp_path, {"rgb": 4})
    assert open_rows(open_dataset("thumos14", tmp_path).items[0]).width == 4


def test_a_conversion_that_was_killed_is_done_again(tmp_path: Path, own_cache: Path) -> None:
    expected = write_thumos_oadtr(tmp_path, ANET)
    open_dataset("thumos14", tmp_path)
    for index in list(own_cache.rglob("index.json")):
        folder = index.parent
        folder.rename(folder.with_name(f".{folder.name}.1.part"))  # what a killed run leaves
    check(open_dataset("thumos14", tmp_path), expected, ANET)


def test_annotations_in_the_archive_and_features_elsewhere(tmp_path: Path) -> None:
    expected = write_thumos_oadtr(tmp_path / "all", ANET)
    (tmp_path / "root").mkdir()
    with zipfile.ZipFile(tmp_path / "root" / "anno_thumos.zip", "w") as archive:
        for path in (tmp_path / "all").glob("*anno*"):
            archive.write(path, path.name)
            path.unlink()
    bare = open_dataset("thumos14", tmp_path / "root")
    damaged = bytearray((tmp_path / "root/anno_thumos.zip").read_bytes())
    damaged[200:210] = bytes(10)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/anno.zip").write_bytes(damaged)
    with pytest.raises(InputError, match=r"anno\.zip, thumos_\w+_anno\.pickle: (cannot be read|not a pickle)"):
        open_dataset("thumos14", tmp_path / "broken")
    (tmp_path / "broken/anno.zip").write_bytes(damaged[:300])
    with pytest.raises(InputError, match=r"anno\.zip: not a readable zip archive"):
        open_dataset("thumos14", tmp_path / "broken")
    assert "4 items have neither features nor video" in bare.problems[-1]
    with pytest.raises(InputError, match="neither features nor media; extract features first"):
        open_rows(bare.items[0])
    check(open_dataset("thumos14", tmp_path / "root", feature_dir=tmp_path / "all"), expected, ANET)


def test_a_validation_part_of_the_training_videos(tmp_path: Path) -> None:
    write_thumos_oadtr(tmp_path, ANET)
    dataset = open_dataset("thumos14", tmp_path, validation=0.5)
    assert [len(dataset.split(split)) for split in ("train", "validation", "test")] == [1, 1, 2]


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch MARKER",)


def test_hostile_and_damaged_pickles(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_thumos_oadtr(tmp_path, ANET)
    path = tmp_path / "thumos_anet_test.pickle"
    good = path.read_bytes()
    path.write_bytes(pickle.dumps({"video_test_0000324": {"rgb": np.zeros((3, 2)), "flow": Evil()}}))
    with pytest.raises(
        InputError, match=r"thumos_anet_test\.pickle: refused: the pickle asks for '(posix|nt)\.system'"
    ):
        open_dataset("thumos14", tmp_path)
    assert not (tmp_path / "MARKER").exists()
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(InputError, match=r"thumos_anet_test\.pickle: not a pickle, or a damaged one"):
        open_dataset("thumos14", tmp_path)
    path.write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(InputError, match="expected a dictionary of videos, not list"):
        open_dataset("thumos14", tmp_path)
    assert not list(own_cache.rglob(".*.part"))


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_thumos_oadtr(tmp_path, ANET)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"cannot write to the cache folder .*COTRANS_CACHE sets another"):
        open_dataset("thumos14", tmp_path)


def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path: Path, own_cache: Path) -> None:
    write_thumos_oadtr(tmp_path, {"rgb": 4000})
    program = (
        "import resource, sys; from pathlib import Path; from pipelines.datasets.opening import open_dataset\n"
        "from pipelines.errors import InputError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: open_dataset('thumos14', Path(sys.argv[1]))\n"
        "except InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "cannot write to the cache folder" in done.stdout, done.stderr
    assert not [path for path in own_cache.rglob("*.npy") if "anet" in str(path)]
    assert len(open_dataset("thumos14", tmp_path).items) == 4


def test_features_and_labels_that_do_not_belong_together(tmp_path: Path) -> None:
    write_thumos_lstr(tmp_path, ANET)
    item = open_dataset("thumos14", tmp_path).items[0]
    write_features(item.features[1], 60, 3)
    with pytest.raises(InputError, match=f"{item.name}: its feature files differ by more than 10 rows"):
        open_rows(item)
    np.save(item.features[1], np.arange(5))
    with pytest.raises(
        InputError, match=r"features must be floats of shape \(rows, width\), not int64 of shape \(5,\)"
    ):
        open_rows(item)


def test_no_annotations(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no annotations in .*thumos_val_anno\.pickle"):
        open_dataset("thumos14", tmp_path)


@pytest.mark.shared
def test_the_real_annotations_in_both_layouts(shared_dir: Path, tmp_path: Path) -> None:
    dataset = open_dataset("thumos14", shared_dir / "thumos14")
    assert [len(dataset.split(split)) for split in ("train", "test")] == [200, 213]
    (tmp_path / "target_perframe").mkdir()
    for item in dataset.items:
        assert item.targets is not None
        (tmp_path / "target_perframe" / f"{item.name}.npy").symlink_to(item.targets)
    other = open_dataset("thumos14", tmp_path)
    counts = np.zeros(22)
    for one, two in zip(dataset.items, other.items, strict=True):
        assert one.name == two.name and one.targets is not None
        rows = len(np.load(one.targets, mmap_mode="r"))
        ours, theirs = frame_targets(dataset, one, rows), frame_targets(other, two, rows)
        assert np.array_equal(ours.targets, theirs.targets) and np.array_equal(ours.valid, theirs.valid)
        counts += ours.targets.sum(axis=0) if one.split == "test" else 0
    assert counts.sum() == 225_222 and counts[0] == 150_368 and counts[21] == 3_634
