"""Times become rows of targets by the documented rule."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item, Segment
from pipelines.datasets.rows.frame_targets import frame_range, frame_targets
from pipelines.errors import ConfigurationError, InputError


def dataset(**changes: object) -> Dataset:
    values = {"items": (), "background": 0, "ignored": (), "multi_label": True, **changes}
    return Dataset("test", "frames", Path(), ("background", "a", "b"), **values)  # type: ignore[arg-type]


def labels(*segments: Segment, rows: int = 10, hop: float = 0.2, **changes: object) -> list[list[int]]:
    item = Item("x", "train", segments=segments)
    result = frame_targets(dataset(**changes), item, rows, hop)
    return [np.flatnonzero(row).tolist() for row in result.targets]


@pytest.mark.parametrize(
    ("start", "end", "hop", "rows"),
    [
        (0.0, 1.0, 0.25, range(4)),
        (0.1, 0.3, 0.2, range(1)),  # the middles 0.1 and 0.3: the start belongs to it, the end does not
        (0.3, 0.7, 0.2, range(1, 3)),  # 0.3 / 0.2 is not exactly 1.5 in binary
        (0.1 + 0.2, 0.7, 0.2, range(1, 3)),
        (0.11, 0.29, 0.2, range(1, 2)),  # holds no middle: the row of its own middle, 0.2
        (0.5, 0.5, 0.2, range(2, 3)),
        (10.0, 12.4, 1.0, range(10, 12)),
        (10.0, 12.6, 1.0, range(10, 13)),
    ],
)
def test_rounding(start: float, end: float, hop: float, rows: range) -> None:
    assert frame_range(start, end, hop) == rows


@pytest.mark.parametrize(
    ("start", "end", "hop", "rows"),
    [
        (0.0, 1.0, 0.25, range(4)),
        (1.13, 1.87, 0.25, range(4, 8)),  # what it touches, however little of it
        (0.2, 1.1, 0.25, range(5)),
        (0.3, 0.6, 0.1, range(3, 6)),  # 0.3 / 0.1 and 0.6 / 0.1 are not whole in binary
        (0.5, 0.5, 0.25, range(2, 3)),
        (10.0, 12.4, 1.0, range(10, 13)),
    ],
)
def test_the_rule_of_lstr(start: float, end: float, hop: float, rows: range) -> None:
    assert frame_range(start, end, hop, "lstr") == rows
    item = Item("x", "train", segments=(Segment(start, end, 1),))
    targets = frame_targets(dataset(label_rule="lstr"), item, 20, hop).targets
    assert np.flatnonzero(targets[:, 1]).tolist() == list(rows)


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 500), min_size=3, max_size=8, unique=True),
    hop=st.sampled_from([0.04, 0.2, 0.25, 1 / 3]),
)
def test_segments_that_touch_share_no_row_and_leave_none_out(cuts: list[int], hop: float) -> None:
    times = [cut / 10 + 0.013 for cut in sorted(cuts)]
    covered: list[int] = []
    for start, end in pairwise(times):
        middles = [row for row in range(2000) if start <= (row + 0.5) * hop < end]
        if middles:
            assert list(frame_range(start, end, hop)) == middles
            covered += middles
    assert covered == sorted(set(covered))
    assert covered == [row for row in range(2000) if times[0] <= (row + 0.5) * hop < times[-1]]


def test_several_labels_in_one_frame_and_background_elsewhere() -> None:
    result = labels(Segment(0.2, 1.0, 1), Segment(0.6, 1.4, 2))
    assert result == [[0], [1], [1], [1, 2], [1, 2], [2], [2], [0], [0], [0]]


def test_one_label_per_frame_keeps_the_short_event() -> None:
    result = labels(Segment(0.79, 0.81, 2), Segment(0.2, 0.8, 1), Segment(0.8, 1.4, 1), multi_label=False)
    assert result == [[0], [1], [1], [1], [2], [1], [1], [0], [0], [0]]


def test_frames_of_ignored_classes_are_not_valid() -> None:
    item = Item("x", "train", segments=(Segment(0.0, 0.4, 2), Segment(0.2, 0.6, 1)))
    result = frame_targets(dataset(ignored=(2,)), item, 4, 0.2)
    assert result.valid.tolist() == [False, False, True, True]


def test_a_clip_label_holds_for_every_row() -> None:
    result = frame_targets(dataset(), Item("x", "train", label=2), 3)
    assert result.targets.argmax(axis=1).tolist() == [2, 2, 2]


@pytest.mark.parametrize(("stored", "rows", "kept"), [(20, 20, 20), (20, 30, 20), (30, 20, 20)])
def test_small_differences_in_length_are_trimmed(stored: int, rows: int, kept: int, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3)[np.ones(stored, dtype=int)])
    item = Item("x", "train", targets=tmp_path / "x.npy")
    assert len(frame_targets(dataset(), item, rows)) == kept


def test_large_differences_in_length_name_the_files(tmp_path: Path) -> None:
    np.save(tmp_path / "labels.npy", np.eye(3)[np.ones(20, dtype=int)])
    item = Item("video7", "train", features=(tmp_path / "video7.npy",), targets=tmp_path / "labels.npy")
    with pytest.raises(InputError, match=r"video7: 31 feature rows and 20 labelled frames differ by more than 10") as e:
        frame_targets(dataset(), item, 31)
    assert str(tmp_path / "video7.npy") in str(e.value) and str(tmp_path / "labels.npy") in str(e.value)


def test_a_segment_far_behind_the_end_is_an_error() -> None:
    near = Segment(1.0, 3.5, 1)
    assert labels(near, rows=10)[9] == [1]
    with pytest.raises(InputError, match=r"x: a segment ends at 9 s \(t.csv, line 3\), but the features end at 2 s"):
        labels(Segment(1.0, 9.0, 1, "t.csv, line 3"), rows=10)


def test_labels_of_the_wrong_width_and_damaged_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.zeros((5, 4)))
    (tmp_path / "bad.npy").write_bytes(b"not numpy")
    with pytest.raises(InputError, match=r"wide\.npy: labels have shape \(5, 4\), not \(frames, 3\)"):
        frame_targets(dataset(), Item("x", "train", targets=tmp_path / "wide.npy"), 5)
    with pytest.raises(InputError, match=r"bad\.npy is not a \.npy file of plain numbers"):
        frame_targets(dataset(), Item("x", "train", targets=tmp_path / "bad.npy"), 5)


def test_without_a_hop_or_labels_there_is_a_reason() -> None:
    with pytest.raises(InputError, match="the time between feature rows is not known"):
        frame_targets(dataset(), Item("x", "train", segments=()), 5)
    with pytest.raises(InputError, match="x: dataset test has no labels for it"):
        frame_targets(dataset(), Item("x", "train"), 5)


def test_other_classes_move_labels_but_not_columns_of_files() -> None:
    names = ("b", "background", "a")
    item = Item("x", "train", segments=(Segment(0.0, 1.0, 2),))
    moved = dataset(items=(item,)).with_classes(names)
    assert moved.items[0].segments == (Segment(0.0, 1.0, 0),) and moved.background == 1
    files = dataset(items=(Item("y", "train", targets=Path("y.npy")),))
    assert files.with_classes(files.class_names) is files
    with pytest.raises(ConfigurationError, match="columns for background, a, b, in this order, not for b, background"):
        files.with_classes(names)
