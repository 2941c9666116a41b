"""Delays, misses and false alarms at a precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import ConfigurationError, UsageError
from pipelines.evaluation.scores.diagnosis import DiagnosisOptions, diagnose, runs, threshold_at_precision

FRAMES = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.8]), st.booleans()), min_size=1, max_size=40)


@given(frames=FRAMES, precision=st.sampled_from([0.3, 0.5, 0.9, 1.0]))
def test_the_threshold_is_the_lowest_with_that_precision(frames: list[tuple[float, bool]], precision: float) -> None:
    scores, positive = np.array([score for score, _ in frames]), np.array([truth for _, truth in frames])
    reached = [value for value in np.unique(scores) if positive[scores >= value].mean() >= precision]
    assert threshold_at_precision(scores, positive, precision) == (min(reached) if reached else None)


def test_runs_end_with_their_video() -> None:
    frames = np.array([1, 1, 0, 1, 1, 1, 0, 1], dtype=np.bool_)
    video = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    first, last = runs(frames, video)
    assert (first.tolist(), last.tolist()) == ([0, 3, 5, 7], [1, 4, 5, 7])


def test_delays_misses_and_false_alarms_are_counted_by_hand() -> None:
    #                  found after 1    missed     found at once, next video      false alarm
    truth = np.array([0, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0], dtype=np.bool_)
    score = np.array([0, 0, 9, 9, 9, 0, 0, 0, 0, 9, 9, 0, 0, 9, 9, 0]) / 10
    video = np.repeat([0, 1], [9, 7])
    options = DiagnosisOptions(precision=0.5, hop=0.5)
    diagnosis = diagnose(score[:, None], truth[:, None], video, ("jump",), options)
    (jump,) = diagnosis.classes
    assert (jump.threshold, jump.actions, jump.found) == (0.9, 3, 2)
    assert jump.delay == pytest.approx((1 + 0) / 2 * 0.5)
    assert diagnosis.hours == pytest.approx(16 * 0.5 / 3600)
    assert jump.false_alarms == pytest.approx(1 / diagnosis.hours)  # frame 4 continues an action: no alarm of its own
    assert (diagnosis.total.actions, diagnosis.total.found, diagnosis.total.delay) == (3, 2, jump.delay)


def test_a_precision_that_is_never_reached_finds_nothing() -> None:
    truth, score = np.array([[False], [True]]), np.array([[0.9], [0.1]])
    diagnosis = diagnose(score, truth, np.zeros(2, dtype=np.int64), ("jump",), DiagnosisOptions(0.8, 1.0))
    assert diagnosis.classes[0].threshold is None
    assert (diagnosis.total.actions, diagnosis.total.found, diagnosis.total.delay) == (1, 0, None)


def test_what_cannot_be_is_told() -> None:
    with pytest.raises(ConfigurationError, match="above 0 and at most 1"):
        DiagnosisOptions(precision=1.2)
    with pytest.raises(UsageError, match="--hop"):
        diagnose(
            np.zeros((1, 1)), np.ones((1, 1), dtype=np.bool_), np.zeros(1, dtype=np.int64), ("a",), DiagnosisOptions()
        )
