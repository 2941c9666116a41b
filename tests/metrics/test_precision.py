"""Average precision against the official numbers, scikit-learn and a slow reading of the definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from pipelines.errors import InputError
from pipelines.metrics.precision import (
    average_precision,
    calibrated_average_precision,
    mean_of_present,
    precision_scores,
)


def slow_calibrated(scores: np.ndarray, positive: np.ndarray) -> float:
    """The definition, one threshold after the other: every positive contributes the precision at its own score."""
    weight = (~positive).sum() / positive.sum()
    precisions = []
    for score in scores[positive]:
        above = scores >= score
        true, false = (above & positive).sum(), (above & ~positive).sum()
        precisions.append(weight * true / (weight * true + false))
    return float(np.mean(precisions))


@st.composite
def tied_rankings(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores with many ties, at least one positive and one negative."""
    frames = draw(st.integers(2, 60))
    levels = draw(st.integers(1, 8))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    positive = generator.random(frames) < draw(st.floats(0.05, 0.95))
    positive[0], positive[1] = True, False
    return (generator.integers(0, levels, frames) / 7.0).astype(dtype), positive


def test_official_thumos_numbers(golden_dir: Path) -> None:
    golden = np.load(golden_dir / "thumos_metrics.npz")
    clear = golden["label"] != 21
    positives = golden["label"][clear, None] == np.arange(1, 21)
    result = precision_scores(golden["scores"][clear, 1:21], positives)
    np.testing.assert_allclose(result.ap, golden["ap"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.cap, golden["cap"], rtol=0, atol=1e-9)
    assert result.mean_ap == pytest.approx(float(golden["mAP"]), abs=1e-9)
    assert result.mean_cap == pytest.approx(float(golden["mcAP"]), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(tied_rankings())
def test_ties_as_in_scikit_learn(ranking: tuple[np.ndarray, np.ndarray]) -> None:
    scores, positive = ranking
    expected = average_precision_score(positive, scores)
    assert average_precision(scores[:, None], positive[:, None])[0] == pytest.approx(expected, abs=1e-12)
    calibrated = calibrated_average_precision(scores[:, None], positive[:, None])[0]
    assert calibrated == pytest.approx(slow_calibrated(scores, positive), abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(tied_rankings(), st.integers(0, 1000))
def test_the_order_of_frames_does_not_matter(ranking: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    scores, positive = ranking
    order = np.random.default_rng(seed).permutation(len(scores))
    before = precision_scores(scores[:, None], positive[:, None])
    after = precision_scores(scores[order, None], positive[order, None])
    assert before.ap[0] == after.ap[0]
    assert before.cap[0] == after.cap[0]


def test_classes_are_scored_apart() -> None:
    generator = np.random.default_rng(3)
    scores = generator.integers(0, 20, (200, 4)).astype(np.float32)
    positives = generator.random((200, 4)) < [0.1, 0.5, 0.9, 0.3]
    together = average_precision(scores, positives)
    expected = [average_precision_score(positives[:, column], scores[:, column]) for column in range(4)]
    np.testing.assert_allclose(together, expected, atol=1e-12)


def test_guessing_has_a_calibrated_precision_of_one_half() -> None:
    generator = np.random.default_rng(0)
    scores = generator.random((40_000, 3), dtype=np.float32)
    positives = generator.random((40_000, 3)) < [0.02, 0.2, 0.6]
    np.testing.assert_allclose(calibrated_average_precision(scores, positives), 0.5, atol=0.03)


def test_a_class_without_positives_is_nan_and_not_in_the_mean() -> None:
    scores = np.array([[0.9, 0.1], [0.2, 0.8]])
    result = precision_scores(scores, np.array([[True, False], [False, False]]))
    assert result.positives.tolist() == [1, 0]
    assert np.isnan(result.ap[1]) and np.isnan(result.cap[1])
    assert result.mean_ap == 1.0


def test_a_class_without_negatives_is_perfect() -> None:
    result = precision_scores(np.array([[0.9], [0.2]]), np.array([[True], [True]]))
    assert (result.ap[0], result.cap[0]) == (1.0, 1.0)


def test_infinite_scores_rank_like_others() -> None:
    scores = np.array([[np.inf], [0.0], [-np.inf], [-np.inf]])
    positives = np.array([[True], [False], [True], [False]])
    assert average_precision(scores, positives)[0] == pytest.approx((1 + 2 / 4) / 2)


@pytest.mark.parametrize(
    ("scores", "positives", "message"),
    [
        (np.full((3, 2), np.nan), np.ones((3, 2), bool), "NaN in every frame, first in row 0"),
        (np.array([[0.0, 1.0], [0.5, np.nan]]), np.ones((2, 2), bool), "NaN in 1 of 2 frames, first in row 1"),
        (np.zeros((0, 2)), np.zeros((0, 2), bool), "nothing to score: 0 frames"),
        (np.zeros((3, 2)), np.ones((3, 1), bool), r"\(3, 2\) and \(3, 1\)"),
        (np.zeros(3), np.ones(3, bool), r"\(frames, classes\)"),
    ],
)
def test_what_cannot_be_scored_says_why(scores: np.ndarray, positives: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        precision_scores(scores, positives)


def test_mean_of_nothing_is_nan() -> None:
    assert np.isnan(mean_of_present(np.array([np.nan])))
