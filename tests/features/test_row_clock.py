"""Which frames belong to which row: against the definition, written out in full."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import InputError
from pipelines.features.row_clock import FrameChoice, FramePicker, RowClock
from pipelines.features.spec import Align, ExtractorSpec, FeatureSpec

ALIGNMENTS = ("causal", "centre", "start")


def by_definition(
    times: list[float], end: float, hop: float, align: Align, count: int, choice: FrameChoice
) -> list[list[int | None]]:
    """Frame numbers of every row, looking at the whole stream at once."""
    tolerance = min(0.6e-3, hop / 10)
    rows: list[list[int | None]] = []
    for row in range(max(1, math.floor((end + tolerance) / hop))):
        t = (row + 1) * hop if align == "causal" else row * hop
        begin = {"causal": t - hop, "centre": t - hop / 2, "start": t}[align]
        if count > 1:
            anchor = t - tolerance if align == "causal" else t + tolerance
            before = {"causal": count - 1, "centre": count // 2, "start": 0}[align]
        else:
            anchor = begin + hop / 2 + tolerance if choice == "centre" else begin + hop - tolerance
            before = 0
        newest = max((index for index, time in enumerate(times) if time <= anchor), default=-1)
        numbers = [newest - before + offset for offset in range(count)]
        if align == "causal" and times[0] > t - tolerance:
            rows.append([None] * count)
        else:
            rows.append([min(max(number, 0), len(times) - 1) for number in numbers])
    return rows


def picked(picker: FramePicker[int], times: list[float], last: float) -> list[list[int | None]]:
    rows = []
    for index, time in enumerate(times):
        duration = times[index + 1] - time if index + 1 < len(times) else last
        rows += picker.push(index, time, duration)
    return rows + picker.flush()


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(st.floats(0.005, 0.7), min_size=1, max_size=40),
    start=st.floats(0, 1.5),
    hop=st.sampled_from([0.04, 0.2, 0.25, 0.5, 1.0]),
    align=st.sampled_from(ALIGNMENTS),
    count=st.sampled_from([1, 2, 6]),
    choice=st.sampled_from(["centre", "last"]),
)
def test_rows_are_as_defined(
    steps: list[float], start: float, hop: float, align: Align, count: int, choice: FrameChoice
) -> None:
    times = [start + sum(steps[:index]) for index in range(len(steps))]
    picker: FramePicker[int] = FramePicker(RowClock(hop, align), count, choice)
    rows = picked(picker, times, steps[-1])
    assert rows == by_definition(times, times[-1] + steps[-1], hop, align, count, choice)


@pytest.mark.parametrize("rate", [24.0, 23.976, 25.0, 29.97, 30.0, 60.0])
@pytest.mark.parametrize("rounded", [False, True])
def test_every_k_frames_counts_frames(rate: float, rounded: bool) -> None:
    """A hop of k frames gives rows of k frames, also where the container rounds times to milliseconds."""
    k = 6
    times = [round(index / rate, 3) if rounded else index / rate for index in range(600)]
    clock = RowClock(k / rate)
    rows = picked(FramePicker(clock), times, 1 / rate)
    assert rows == [[row * k + k // 2] for row in range(100)]
    stacks = picked(FramePicker(clock, k), times, 1 / rate)
    assert stacks == [list(range(row * k, row * k + k)) for row in range(100)]


def test_rows_come_as_soon_as_their_hop_is_over() -> None:
    picker: FramePicker[int] = FramePicker(RowClock(0.25))
    ready = [len(picker.push(index, index / 25, 0.04)) for index in range(20)]
    assert ready == [1 if index in (7, 13, 19) else 0 for index in range(20)]  # 0.28, 0.52, 0.76 s


def test_causal_rows_before_the_first_frame_are_black() -> None:
    rows = picked(FramePicker(RowClock(0.25)), [0.6, 0.64, 0.9], 0.2)
    assert rows == [[None], [None], [0], [1]]


def test_few_frames_are_held() -> None:
    picker: FramePicker[int] = FramePicker(RowClock(10.0), 6)
    for index in range(3000):
        picker.push(index, index / 30, 1 / 30)
        assert len(picker._held) <= 7
        assert len(picker._ready) <= 1


def test_frames_out_of_order_are_refused() -> None:
    picker: FramePicker[int] = FramePicker(RowClock(0.25))
    picker.push(0, 0.0, 0.04)
    with pytest.raises(InputError, match="in order of time"):
        picker.push(1, 0.0, 0.04)


def test_row_times_are_those_of_the_specification() -> None:
    part = ExtractorSpec("resnet50", "video", 4, 0.0)
    for align in ALIGNMENTS:
        spec = FeatureSpec((part,), 0.2, align)  # type: ignore[arg-type]
        clock = RowClock(0.2, align)  # type: ignore[arg-type]
        assert [clock.time(row) for row in range(9)] == [spec.row_time(row) for row in range(9)]
