"""A user's own recordings with a table of events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.opening import open_dataset
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.datasets.rows.frame_targets import frame_targets
from pipelines.errors import InputError, UsageError
from tests.datasets.dataset_builders import write_features, write_sound

HEADER = "file,start,end,label\n"


def write_table(root: Path, text: str, name: str = "labels.csv") -> Path:
    (root / name).write_text(text)
    return root / name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two recordings of 4 s."""
    write_sound(tmp_path / "a.wav", seconds=4)
    write_sound(tmp_path / "talks/b.flac", seconds=4)
    return tmp_path


def test_events_of_media(root: Path) -> None:
    write_table(root, HEADER + "a.wav,1,2,knock\na,2,2.5,door\ntalks/b.flac,0,4,knock\n")
    dataset = open_dataset("folder", root, validation=0.0)
    assert dataset.class_names == ("background", "door", "knock") and dataset.kind == "frames"
    assert [item.name for item in dataset.items] == ["a", "talks/b"]
    item = dataset.items[0]
    assert item.media and not item.features and item.duration == pytest.approx(4)
    targets = frame_targets(dataset, item, 16, 0.25).targets.argmax(axis=1)
    assert targets.tolist() == [0] * 4 + [2] * 4 + [1] * 2 + [0] * 6


def test_rows_by_the_rule_of_lstr(root: Path) -> None:
    write_table(root, HEADER + "a.wav,1.2,2.1,knock\n")
    rows = {}
    for rule in (None, "middle", "lstr"):
        dataset = open_dataset("folder", root, validation=0.0, label_rule=rule)
        targets = frame_targets(dataset, dataset.items[0], 16, 0.25).targets
        rows[rule] = np.flatnonzero(targets[:, 1]).tolist()
    assert rows == {None: [5, 6, 7], "middle": [5, 6, 7], "lstr": [4, 5, 6, 7, 8]}
    with pytest.raises(UsageError, match="no label rule 'floor': choose from middle, lstr"):
        open_dataset("folder", root, label_rule="floor")


def test_the_rule_is_for_times(tmp_path: Path) -> None:
    write_sound(tmp_path / "dog/a.wav", seconds=1)
    with pytest.raises(UsageError, match="--label-rule is for recordings with a table of events"):
        open_dataset("folder", tmp_path, label_rule="lstr")


def test_a_file_may_be_named_in_several_ways(root: Path) -> None:
    write_table(root, HEADER + "b,1,2,x\na,,,\n")
    dataset = open_dataset("folder", root, validation=0.0)
    assert {item.name: item.segments for item in dataset.items}["a"] == ()
    assert frame_targets(dataset, dataset.items[1], 4, 1.0).targets.argmax(axis=1).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_and_a_byte_order_mark(separator: str, root: Path) -> None:
    text = "\ufeff" + (HEADER + "a,1,2,x\n").replace(",", separator)
    (root / "labels.csv").write_text(text, encoding="utf-8")
    assert open_dataset("folder", root, validation=0.0).class_names == ("background", "x")


def test_features_and_a_table(tmp_path: Path) -> None:
    write_features(tmp_path / "a.npy", 40, 3)
    write_table(tmp_path, HEADER + "a.npy,1,2,x\n", "events.csv")
    dataset = open_dataset("folder", tmp_path, annotations=tmp_path / "events.csv", hop=0.1, validation=0.0)
    (item,) = dataset.items
    targets = frame_targets(dataset, item, len(open_rows(item))).targets
    assert np.flatnonzero(targets[:, 1]).tolist() == list(range(10, 20))
    assert open_dataset("folder", tmp_path, annotations=Path("events.csv"), validation=0.0).hop is None


def test_splits_and_groups_in_columns(root: Path) -> None:
    write_table(root, "file,start,end,label,split\na,1,2,x,train\na,2,3,x,train\nb,1,2,x,val\n")
    dataset = open_dataset("folder", root)
    assert {item.name: item.split for item in dataset.items} == {"a": "train", "talks/b": "validation"}
    write_table(root, "file,start,end,label,group,comment\na,1,2,x,ann,\nb,1,2,x,bob,loud\n")
    dataset = open_dataset("folder", root, fold="bob")
    assert {item.name: item.split for item in dataset.items} == {"a": "train", "talks/b": "validation"}
    assert "columns that are not used: comment" in dataset.problems[0]
    write_table(root, "file,start,end,label,split\na,1,2,x,train\nb,1,2,y,test\n")
    assert open_dataset("folder", root).problems == ("labels without a training event: y",)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a,3,2,x", r"labels\.csv, line 2: the event ends at 2 s, not after its start at 3 s"),
        ("a,2,2,x", r"line 2: the event ends at 2 s, not after its start at 2 s"),
        ("a,-1,2,x", r"line 2: start is -1 s, before the file begins"),
        ("a,1,9.5,x", r"line 2: 'x' ends at 9\.5 s, but a has only 4\.00 s"),
        ("a,1,3,x\na,2,4,y", r"lines 2 and 3: 'x' until 3 s and 'y' from 2 s overlap in a; --multi-label allows it"),
        ("a,2,4,y\na,1,3,x", r"lines 3 and 2: 'x' until 3 s and 'y' from 2 s overlap"),
        ("a,0,4,x\na,1,2,y\na,3,4,y", r"lines 2 and 3: .* overlap"),
        ("a,one,2,x", r"line 2: start must be a number of seconds, not 'one'"),
        ("a,nan,2,x", r"line 2: start must be a number of seconds"),
        ("a,1,inf,x", r"line 2: end must be a number of seconds"),
        ("a,1,,x", r"line 2: end must be a number of seconds, not ''"),
        ("a,1,2,", r"line 2: no label"),
        (",1,2,x", r"line 2: no file name"),
        ("a,1,2,x,y", r"line 2: more fields than the first line has columns"),
        ("c,1,2,x", r"line 2: there is no file 'c' in"),
        ("a,,,", r"there is no event in the table"),
        ("", r"the table has no lines below its header"),
    ],
)
def test_a_bad_table_is_one_clear_line(lines: str, message: str, root: Path) -> None:
    write_table(root, HEADER + lines + "\n")
    with pytest.raises(InputError, match=message) as caught:
        open_dataset("folder", root)
    assert "\n" not in str(caught.value)


def test_bad_files_are_one_clear_line(root: Path) -> None:
    write_table(root, "file,from,to,label\na,1,2,x\n")
    with pytest.raises(InputError, match="must name the columns file,start,end,label; missing: start, end"):
        open_dataset("folder", root)
    (root / "labels.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="not a text file in UTF-8"):
        open_dataset("folder", root)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        open_dataset("folder", root, annotations=Path("absent.csv"))
    write_table(root, "file,start,end,label,split\na,1,2,x,train\nb,1,2,x,holdout\n")
    with pytest.raises(InputError, match="line 3: unknown split 'holdout'"):
        open_dataset("folder", root)
    write_table(root, "file,start,end,label,split\na,1,2,x,train\na,2,3,x,test\n")
    with pytest.raises(InputError, match="a is in several splits; a file must be in one"):
        open_dataset("folder", root)
    write_table(root, "file,start,end,label,split\na,1,2,x,train\nb,2,3,x,\n")
    with pytest.raises(InputError, match="1 of 2 items have no split, the others do: talks/b"):
        open_dataset("folder", root)


def test_overlaps_that_are_meant(root: Path) -> None:
    write_table(root, HEADER + "a,1,3,x\na,2,4,y\n")
    dataset = open_dataset("folder", root, multi_label=True, validation=0.0)
    targets = frame_targets(dataset, dataset.items[0], 4, 1.0).targets
    assert targets[:, 1:].tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]


def test_an_event_that_ends_a_little_late_is_cut(root: Path) -> None:
    write_table(root, HEADER + "a,1,4.2,x\n")
    dataset = open_dataset("folder", root, validation=0.0)
    assert frame_targets(dataset, dataset.items[0], 4, 1.0).targets.argmax(axis=1).tolist() == [0, 1, 1, 1]


def test_unusable_and_unnamed_files_are_reported(root: Path) -> None:
    (root / "c.wav").write_bytes(b"noise")
    write_table(root, HEADER + "a,1,2,x\nc,1,2,x\n")
    problems = open_dataset("folder", root, validation=0.0).problems
    assert any("damaged, left out" in problem and "c.wav" in problem for problem in problems)
    assert any("the table does not name, left out: b.flac" in problem for problem in problems)
    write_table(root, HEADER + "c,1,2,x\n")
    with pytest.raises(InputError, match="none of its files can be used"):
        open_dataset("folder", root)


def test_labels_against_the_given_classes(root: Path) -> None:
    write_table(root, HEADER + "a,1,2,x\nb,1,2,y\n")
    assert open_dataset("folder", root, classes=("y", "x")).class_names == ("background", "y", "x")
    with pytest.raises(InputError, match="labels that are no class in --classes: y"):
        open_dataset("folder", root, classes=("x",))
    with pytest.raises(InputError, match="the label 'z' occurs in no split"):
        open_dataset("folder", root, classes=("x", "y", "z"))


def test_a_name_that_may_be_several_files(root: Path) -> None:
    write_sound(root / "other/b.wav", seconds=1)
    write_table(root, HEADER + "b,0,1,x\n")
    with pytest.raises(InputError, match=r"line 2: 'b' may be any of other/b\.wav, talks/b\.flac: give the path"):
        open_dataset("folder", root)
