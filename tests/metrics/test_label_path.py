"""The likeliest sequence of labels: against all sequences there are, told as early as it is certain, and resumed."""

from __future__ import annotations

import json
import math
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.metrics.label_path import LabelPath, Run

LABELS = 3  # the last one is what is before the beginning


def rows_of(seed: int, rows: int, sharp: float = 1.0) -> np.ndarray:
    """Logarithms of probabilities (rows, LABELS)."""
    logits = sharp * np.random.default_rng(seed).normal(size=(rows, LABELS)).cumsum(axis=0)
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)


def runs(labels: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(label, first row, row after the last)."""
    borders = [0, *(place for place in range(1, len(labels)) if labels[place] != labels[place - 1]), len(labels)]
    return [(labels[begin], begin, end) for begin, end in pairwise(borders)]


def allowed(found: list[tuple[int, int, int]], least: int, last: int) -> bool:
    for place, (label, begin, end) in enumerate(found):
        wanted = last if place == len(found) - 1 else least
        if end - begin < wanted and not (place == 0 and label == LABELS - 1):
            return False
    return True


def best_of_all(scores: np.ndarray, least: int, last: int) -> tuple[float, list[tuple[int, int, int]]]:
    """By trying every sequence."""
    best: tuple[float, list[tuple[int, int, int]]] = (-math.inf, [])
    for labels in product(range(LABELS), repeat=len(scores)):
        found = runs(labels)
        if allowed(found, least, last):
            worth = worth_of(scores, found)
            best = max(best, (worth, found))
    return best


def worth_of(scores: np.ndarray, found: list[tuple[int, int, int]]) -> float:
    changes = (len(found) - 1) * math.log(LABELS - 1)
    return float(sum(scores[begin:end, label].sum() for label, begin, end in found)) - changes


def decoded(scores: np.ndarray, least: int, last: int, cut: int | None = None) -> list[Run]:
    """cut: the row before which a snapshot is taken."""
    path = LabelPath(LABELS, least, LABELS - 1)
    told: list[Run] = []
    for place, row in enumerate(scores):
        if place == cut:
            state = json.loads(json.dumps(path.state(), allow_nan=False))
            path = LabelPath(LABELS, least, LABELS - 1)
            path.restore(state)
        told += path.push(row, [float(place)])
        assert all(run.end[0] <= place for run in told)
    return told + path.finish([float(len(scores))], last)


def plain(told: list[Run]) -> list[tuple[int, int, int]]:
    return [(run.label, int(run.begin[0]), int(run.end[0])) for run in told]


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 4), st.floats(0.2, 3.0))
@settings(max_examples=60, deadline=None)
def test_it_is_the_best_of_all_sequences(seed: int, rows: int, least: int, sharp: float) -> None:
    scores, last = rows_of(seed, rows, sharp), (least + 1) // 2
    worth, _ = best_of_all(scores, least, last)
    found = plain(decoded(scores, least, last))
    assert allowed(found, least, last)
    assert worth_of(scores, found) == pytest.approx(worth)


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 5), st.integers(0, 59))
@settings(max_examples=60, deadline=None)
def test_a_snapshot_changes_nothing_and_runs_follow_each_other(seed: int, rows: int, least: int, cut: int) -> None:
    scores = rows_of(seed, rows, 0.5)
    told = plain(decoded(scores, least, least))
    assert plain(decoded(scores, least, least, cut)) == told
    assert [begin for _, begin, _ in told] == [0, *(end for _, _, end in told[:-1])][: len(told)]
    assert all(one[0] != next_one[0] for one, next_one in pairwise(told))


def test_what_is_certain_is_told_while_the_stream_goes_on() -> None:
    labels = [0] * 20 + [1] * 20 + [0] * 20
    scores = np.log(np.full((60, LABELS), 0.05))
    scores[np.arange(60), labels] = math.log(0.9)
    path = LabelPath(LABELS, 4, LABELS - 1)
    told = {row: found for row, each in enumerate(scores) if (found := plain(path.push(each, [float(row)])))}
    assert [run for found in told.values() for run in found] == [(0, 0, 20), (1, 20, 40)]
    assert max(told) <= 40 + 3 * 4  # least lengths after the label has changed
    assert plain(path.finish([60.0], 2)) == [(0, 40, 60)]


def test_a_single_wrong_row_changes_nothing_and_two_short_labels_are_one_of_them() -> None:
    scores = np.log(np.full((16, LABELS), 0.02))
    for row, label in enumerate("0000100000112111"):
        scores[row, int(label)] = math.log(0.96)
    assert plain(decoded(scores, 3, 2)) == [(0, 0, 10), (1, 10, 16)]
