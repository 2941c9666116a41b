"""scores.js and segments.js against Python: packing, levels of detail, rows that are added, merging by a threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.pages.packing import as_bytes, packed_rows, regular_runs
from pipelines.pages.recording import Recording, ShownRule, write_recordings
from pipelines.streaming.output.segments import SegmentMerger
from pipelines.streaming.predicting.label_rule import LabelRule
from pipelines.streaming.predicting.prediction import Interpreter, Prediction
from tests.pages.conftest import OpenPage

HOP = 0.25
CLASSES = ("a", "b", "c", "background")
BEGINS = [HOP * row for row in range(700)] + [300 + HOP * row for row in range(900)]  # with a gap


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    """(rows, classes) bytes that wander, as real scores do."""
    walk = np.random.default_rng(0).normal(size=(len(BEGINS), len(CLASSES))).cumsum(axis=0) / 8
    return as_bytes(np.exp(walk) / np.exp(walk).sum(axis=1, keepdims=True))


@pytest.fixture(scope="module")
def report(scores: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scores") / "scores.html"
    rule = ShownRule("softmax", 0.0, "0.00", hidden=(3,), least=0.6)
    write_recordings(path, [Recording("r", "r", CLASSES, rule, packed_rows(BEGINS, HOP, scores), [])])
    return path


def merged(scores: np.ndarray, kind: Any, threshold: float) -> list[tuple[float, float, str]]:
    """What `cotrans stream --segments` makes of the same numbers."""
    rule = LabelRule(threshold, hidden=frozenset({"background"}))
    merger = SegmentMerger("r", kind, rule, least=0.6)
    interpreter = Interpreter(CLASSES, kind, rule=rule)
    segments = []
    for index, (begin, row) in enumerate(zip(BEGINS, scores / 255, strict=True)):
        ((_, label, score, top),) = interpreter.best(row[None])
        prediction = Prediction(
            "r", 0, index, begin + HOP, begin, begin + HOP, label, score, top, False, 0.0, row.astype(np.float32), row
        )
        segments += merger.push(prediction, CLASSES)
    segments += merger.finish()
    return sorted((round(item.start, 6), round(item.end, 6), item.label) for item in segments)


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
def test_merging_is_that_of_the_stream(report: Path, scores: np.ndarray, kind: str, open_page: OpenPage) -> None:
    page = open_page(report)
    for threshold in (0.0, 0.3, 0.5, 0.9):
        script = (
            """([kind, threshold]) => segmentsAt(report.view.scores, {...report.view.recording, kind}, threshold)"""
        )
        items = page.evaluate(script, [kind, threshold])
        own = sorted((round(item["start"], 6), round(item["end"], 6), item["label"]) for item in items)
        assert own == merged(scores, kind, threshold), threshold


def test_a_short_segment_after_a_gap_does_not_lead_back(tmp_path: Path, open_page: OpenPage) -> None:
    # a for a second, nothing, a row of b (too short to be told of), a again: the two stretches of a are two. At the end
    # half of the least length is enough, since more may have followed.
    shown = [0] * 4 + [None] * 3 + [1] + [0] * 4 + [1] * 2
    rows = np.full((len(shown), 2), 20, np.uint8)
    for row, index in enumerate(shown):
        if index is not None:
            rows[row, index] = 230
    path = tmp_path / "gap.html"
    packed = packed_rows([HOP * row for row in range(len(shown))], HOP, rows)
    rule = ShownRule("softmax", 0.0, "0.00", least=0.6)
    write_recordings(path, [Recording("r", "r", ("a", "b"), rule, packed, [])])
    page = open_page(path)
    items = page.evaluate("segmentsAt(report.view.scores, report.view.recording, 0.5)")
    assert [(item["start"], item["end"], item["label"]) for item in items] == [
        (0, 1, "a"),
        (2, 3, "a"),
        (3, 3.5, "b"),
    ]


def test_every_level_has_the_maxima(report: Path, scores: np.ndarray, open_page: OpenPage) -> None:
    page = open_page(report)
    levels = page.evaluate("report.view.scores.levels.map((columns) => columns.map((column) => [...column]))")
    for level, columns in enumerate(levels):
        size = 8**level
        for index, column in enumerate(columns):
            expected = [int(scores[begin : begin + size, index].max()) for begin in range(0, len(BEGINS), size)]
            assert column[: len(expected)] == expected


def test_rows_that_are_added_one_by_one_give_the_same(report: Path, scores: np.ndarray, open_page: OpenPage) -> None:
    page = open_page(report)
    script = """(rows) => {
        const added = new Scores(4);
        for (const [begin, ...values] of rows) added.append(begin, begin + 0.25, values.map((value) => value / 255));
        const own = report.view.scores;
        return added.length === own.length && added.levels.every((columns, level) => columns.every((column, index) =>
            column.subarray(0, Math.ceil(own.length / 8 ** level)).every((value, place) =>
                value === own.levels[level][index][place])));
    }"""
    assert page.evaluate(script, [[begin, *row] for begin, row in zip(BEGINS, scores.tolist(), strict=True)])


def test_an_endless_stream_forgets_its_beginning(report: Path, open_page: OpenPage) -> None:
    page = open_page(report)
    script = """() => {
        const kept = new Scores(1, 100);
        for (let row = 0; row < 1000; row++) kept.append(row, row + 1, [row === 999 ? 1 : 0.5]);
        return [kept.length <= 100, kept.end, kept.at(kept.length - 1, 0), kept.rowAt(950) >= 0, kept.rowAt(10)];
    }"""
    assert page.evaluate(script) == [True, 1000, 1, True, -1]


def test_a_long_recording_is_few_elements(tmp_path: Path, open_page: OpenPage) -> None:
    rows = 30_000
    scores = np.zeros((rows, 2), np.uint8)
    scores[np.arange(rows), np.arange(rows) // 2 % 2] = 255
    segments = [(row * HOP, (row + 2) * HOP, "ab"[row // 2 % 2], 1.0) for row in range(0, rows, 2)]
    packed = packed_rows([HOP * row for row in range(rows)], HOP, scores)
    path = tmp_path / "long.html"
    write_recordings(path, [Recording("r", "r", ("a", "b"), ShownRule("softmax", 0.0, "0.00"), packed, segments)])
    page = open_page(path)
    assert page.locator(".long-table table").get_attribute("aria-rowcount") == "15001"
    assert page.evaluate("document.querySelectorAll('*').length") < 700
    page.evaluate("report.view.choose(9000, true)")
    assert page.locator("tr[aria-selected]").get_attribute("aria-rowindex") == "9002"


def test_runs_of_rows() -> None:
    assert regular_runs(BEGINS, HOP) == [(0.0, 700), (300.0, 900)]
    assert regular_runs([], HOP) == []
