"""Events of recordings that run through the classes in order."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import InputError
from pipelines.evaluation.scores.ordered_events import phase_starts, score_events
from pipelines.evaluation.scores.predictions import make_predictions

PHASES = tuple("abcdefghi")


def true_phases(starts: list[int], rows: int) -> np.ndarray:
    return np.searchsorted(starts, np.arange(rows), side="right")


@given(st.integers(1, 7), st.integers(2, 4), st.integers(0, 10_000))
def test_the_path_is_the_best_of_all(rows: int, phases: int, seed: int) -> None:
    scores = np.random.default_rng(seed).dirichlet(np.ones(phases), rows)

    def worth(starts: tuple[int, ...]) -> float:
        path = np.searchsorted(starts, np.arange(rows), side="right")
        return float(np.log(scores[np.arange(rows), path]).sum())

    # Every path: the rows at which it goes on, one phase at a time; what is not reached begins after the end.
    paths = [
        (*moves, *[rows] * (phases - 1 - count))
        for count in range(min(phases, rows))
        for moves in combinations(range(1, rows), count)
    ]
    found = tuple(phase_starts(scores).tolist())
    assert found in paths
    assert worth(found) == pytest.approx(max(map(worth, paths)))


def test_events_count_within_the_tolerance_of_the_paper() -> None:
    true = [10, 25, 33, 41, 45, 55, 57, 75]  # 45 frames from address to impact: round(45 / 30) = 2 either side
    said = [10, 27, 36, 41, 44, 52, 57, 75]  # off by 0, 2, 3, 0, 1, 3, 0, 0
    label, named = true_phases(true, 100), true_phases(said, 100)
    scores = np.full((100, 9), 0.01)
    scores[np.arange(100), named] = 0.92
    score = score_events(make_predictions(scores, label, np.array(["clip"] * 100)), PHASES)
    assert score.found == (1, 1, 0, 1, 1, 0, 1, 1)
    assert score.pce == 0.75
    assert score.frame_accuracy == np.mean(label == named)
    assert score.to_dict()["found"]["d"] == 0


def test_a_swing_that_is_cut_short_has_events_that_are_not_found() -> None:
    label = true_phases([2, 4, 6, 8, 10, 12, 14, 99], 20)
    scores = np.eye(9)[label] * 0.9 + 0.01
    predictions = make_predictions(np.tile(scores, (2, 1)), np.tile(label, 2), np.repeat([1, 2], 20))
    score = score_events(predictions, PHASES)
    assert score.found == (1, 1, 1, 1, 1, 1, 1, 0)
    assert score.recordings == 2


def test_too_few_phases_are_refused() -> None:
    predictions = make_predictions(np.ones((4, 3)), np.zeros(4, int), np.zeros(4, int))
    with pytest.raises(InputError, match="there are 3"):
        score_events(predictions, PHASES[:3])
