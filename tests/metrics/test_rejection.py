"""None of these: the rule, how it is fitted, and how honest probabilities are."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pipelines.errors import ConfigurationError
from pipelines.metrics.probabilities import probabilities
from pipelines.metrics.rejection import (
    CLEARNESS,
    MOST_AT_ALL,
    MOST_LOST,
    MOST_OF_A_CLASS,
    MOST_REJECTED,
    ROOM,
    Rejection,
    against_noise,
    calibration_error,
    evidence,
    fit_rejection,
    fit_temperature,
    separation,
)


def made(seed: int, count: int, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Logits (count, 5) with `strength` for the right class, and labels."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 5, count)
    logits = generator.normal(0, 1, (count, 5))
    logits[np.arange(count), labels] += strength
    return logits, labels


def test_energy_is_the_odds_against_a_logit_of_zero() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (7, 4))
    with_none = probabilities(np.concatenate([logits, np.zeros((7, 1))], 1), "softmax")
    expected = np.log(with_none[:, :4].sum(1) / with_none[:, 4])
    np.testing.assert_allclose(evidence(logits, "energy"), expected, rtol=1e-10)
    np.testing.assert_allclose(evidence(logits, "probability"), probabilities(logits, "softmax").max(1))
    assert math.isfinite(float(evidence(np.full(3, 1e4), "energy")))


def test_both_is_energy_and_how_clear_the_best_class_is() -> None:
    logits = np.random.default_rng(0).normal(0, 3, (7, 4))
    best = np.log(probabilities(logits, "softmax").max(1))
    np.testing.assert_allclose(evidence(logits, "both"), evidence(logits, "energy") + CLEARNESS * best, rtol=1e-10)
    alone, several = np.array([2.0, -9.0, -9.0]), np.array([1.0, 1.0, 0.5])  # the second has more energy
    assert evidence(several, "energy") < evidence(alone, "energy") + 0.1
    assert evidence(several, "both") < evidence(alone, "both") - 2.0


def test_foreign_input_that_is_taken_for_several_things_is_turned_away_by_both() -> None:
    known, labels = made(0, 400, 6.0)
    generator = np.random.default_rng(1)
    faint = generator.normal(-5, 0.3, (200, 5))  # a clear best class, and little evidence
    faint[np.arange(200), generator.integers(0, 5, 200)] += 4.0
    unclear = generator.normal(4.5, 0.3, (200, 5))  # much evidence, for everything
    foreign = np.concatenate([faint, unclear])
    rule = fit_rejection(known, labels, foreign)
    assert rule.statistic == "both"
    assert (rule.evidence(foreign) < rule.threshold).mean() > 0.95


def test_the_evidence_of_several_rows_is_their_mean() -> None:
    rule = Rejection("energy", 2.0, over=3)
    low, high = [-9.0, -9.0], [4.0, -9.0]  # evidence of about -8.3 and 4
    assert rule.knows(np.array([low, high, high, high])) and not rule.knows(np.array([high, high, high, low]))
    assert rule.knows(np.array([high])) and Rejection("energy", 2.0).knows(np.array([low, high]))
    assert Rejection.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule
    older = {name: value for name, value in rule.to_dict().items() if name != "over"}
    assert Rejection.from_dict(older).over == 1
    for wrong in (0, 10**9, "many", None, float("inf")):
        with pytest.raises(ConfigurationError):
            Rejection.from_dict({**rule.to_dict(), "over": wrong})


def test_the_first_rows_of_noise_are_turned_away() -> None:
    generator = np.random.default_rng(2)
    noise = [np.linspace(3.0, -6.0, 8)[:, None] + generator.normal(0, 0.5, (8, 4)) for _ in range(90)]
    rule = against_noise(Rejection("energy", -1.0), noise, 4)
    assert (
        len(rule.early) == 4 and min(rule.early) > rule.threshold and sorted(rule.early, reverse=True) == [*rule.early]
    )
    for seed in range(100):
        fresh = np.linspace(3.0, -6.0, 8)[:, None] + np.random.default_rng([3, seed]).normal(0, 0.5, (8, 4))
        assert not any(rule.knows(fresh[: row + 1]) for row in range(4))
    sure = np.full((6, 4), 2.0)
    assert not rule.knows(sure[:1]) and rule.knows(sure)  # what needs more evidence at first is known later
    ages = [rule.threshold_of(0, rows) for rows in (1, 4, 5, 900, None)]
    assert ages == [rule.early[0], rule.early[3], *[rule.by_class[0]] * 3]
    assert against_noise(Rejection("energy", -1.0), [], 2) == Rejection("energy", -1.0)


def test_a_class_that_noise_is_taken_for_asks_for_more() -> None:
    generator = np.random.default_rng(0)
    noise = [np.c_[generator.normal(1.0, 0.2, 10), np.full((10, 2), -6.0)] for _ in range(20)]  # nearly the first class
    rule = against_noise(Rejection("energy", -1.0), noise, 0)
    assert rule.early == () and rule.by_class[1:] == (-1.0, -1.0) and rule.by_class[0] > 1.0 + ROOM
    assert not rule.knows(np.array([[1.4, -6.0, -6.0]])) and rule.knows(np.array([[-6.0, -0.5, -6.0]]))
    known = np.c_[generator.normal(2.0, 0.5, 400), np.full((400, 2), -6.0)]
    milder = against_noise(Rejection("energy", -1.0), noise, 0, known)
    lost = np.mean([not milder.knows(row[None]) for row in known])
    assert lost == pytest.approx(MOST_OF_A_CLASS, abs=0.01)
    assert against_noise(Rejection("energy", 5.0), noise, 0).by_class == ()


def test_noise_that_settles_asks_for_less_and_less_of_the_class_that_it_is_like() -> None:
    levels = np.array([4.0, 2.0, 0.0, -2.0, -5.0, -5.0])
    generator = np.random.default_rng(6)
    noise = [np.c_[levels + generator.uniform(-0.2, 0, 6), np.full((6, 2), -9.0)] for _ in range(30)]
    rule = against_noise(Rejection("energy", -3.0), noise, 1, settling=4)
    assert len(rule.early) == 1 and rule.by_class == () and len(rule.by_row) == 4
    np.testing.assert_allclose([row[0] for row in rule.by_row], np.array([2.0, 2.0, 0.0, -2.0]) + ROOM, atol=0.2)
    assert {row[1:] for row in rule.by_row} == {(-3.0, -3.0)}
    other = np.array([[-9.0, -1.0, -9.0]] * 6)
    assert [rule.knows(other[: row + 1]) for row in range(6)] == [False] + [True] * 5  # the first row asks it of all
    for recording in noise:
        assert not any(rule.knows(recording[: row + 1]) for row in range(6))
    assert rule.threshold_of(0) == rule.threshold_of(0, 900) == -3.0  # a row somewhere is a late one
    assert Rejection.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule


def test_noise_is_the_background_of_a_stream_and_no_class_of_it() -> None:
    generator = np.random.default_rng(0)
    noise = [np.c_[np.full(50, 4.0), generator.normal(0.0, 1.5, (50, 2))] for _ in range(40)]  # the first is background
    rule = against_noise(Rejection("probability", 0.0), noise, 0, background=0)
    assert rule.early == () and rule.by_class[0] == 0.0 and all(0.5 < level < 1.0 for level in rule.by_class[1:])
    for seed in range(40):
        fresh = np.c_[np.full(50, 4.0), np.random.default_rng([4, seed]).normal(0.0, 1.5, (50, 2))]
        assert not any(rule.knows(row[None]) for row in fresh if row.argmax())
    assert rule.knows(np.array([[-4.0, 4.0, -4.0]])) and rule.knows(np.array([[0.5, 0.4, 0.0]]))
    assert not rule.knows(np.array([[0.0, 0.4, 0.0]]))  # nobody is sure that it is more than noise


def test_fitted_rule_keeps_the_known_and_turns_the_foreign_away() -> None:
    known, labels = made(0, 400, 8.0)
    foreign = np.random.default_rng(1).normal(-2, 1, (300, 5))
    rule = fit_rejection(known, labels, foreign)
    assert (rule.evidence(known) < rule.threshold).mean() <= MOST_REJECTED + 1e-9
    assert (rule.evidence(foreign) < rule.threshold).mean() > 0.99
    fresh, _ = made(2, 400, 8.0)
    assert (rule.evidence(fresh) < rule.threshold).mean() < 3 * MOST_REJECTED


def test_silence_may_cost_a_little_more() -> None:
    known, labels = made(0, 1000, 5.0)
    foreign = np.random.default_rng(1).normal(-4, 0.1, (50, 5))
    without = fit_rejection(known, labels, foreign)
    level = float(np.quantile(without.evidence(known), 0.04))
    silence = np.full((3, 5), -20.0)
    silence[:, 2] = level  # four in a hundred known ones have no more evidence; no doubt about which class it is
    rule = fit_rejection(known, labels, foreign, silence)
    assert rule.statistic == "energy"
    assert (rule.evidence(silence) < rule.threshold).all()
    assert MOST_REJECTED < (rule.evidence(known) < rule.threshold).mean() <= MOST_LOST
    dear = np.full((3, 5), -20.0)
    dear[:, 2] = float(np.quantile(without.evidence(known), 0.15))  # of few clips, three may be hardly more than noise
    rule = fit_rejection(known, labels, foreign, dear)
    assert (rule.evidence(dear) < rule.threshold).all()
    assert MOST_LOST < (rule.evidence(known) < rule.threshold).mean() <= MOST_AT_ALL
    costly = fit_rejection(known, labels, foreign, known[:10] + 9)
    assert (costly.evidence(known) < costly.threshold).mean() <= MOST_LOST


def test_without_foreign_input_the_known_decide() -> None:
    known, labels = made(3, 500, 5.0)
    rule = fit_rejection(known, labels)
    assert (rule.evidence(known) < rule.threshold).mean() == pytest.approx(MOST_REJECTED, abs=0.004)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.5])
def test_temperature_undoes_a_scale(factor: float) -> None:
    generator = np.random.default_rng(5)
    logits = generator.normal(0, 2, (4000, 5))
    honest = probabilities(logits, "softmax")
    labels = np.array([generator.choice(5, p=row) for row in honest])
    assert fit_temperature(factor * logits, labels) == pytest.approx(factor, rel=0.1)


@given(st.integers(0, 2**32 - 1))
def test_separation_is_the_area_under_the_curve(seed: int) -> None:
    generator = np.random.default_rng(seed)
    known, foreign = generator.integers(0, 9, 20).astype(float), generator.integers(-4, 6, 15).astype(float)
    truth = np.r_[np.ones(20), np.zeros(15)]
    assert separation(known, foreign) == pytest.approx(roc_auc_score(truth, np.r_[known, foreign]))


def test_calibration_error() -> None:
    scores = np.array([0.95, 0.95, 0.55, 0.55])
    assert calibration_error(scores, np.array([True, True, True, False])) == pytest.approx(0.05)
    assert calibration_error(np.array([1.0]), np.array([False])) == pytest.approx(1.0)


def test_rules_are_read_strictly() -> None:
    for rule in (Rejection("energy", 1.5, 0.8), Rejection("both", -2.0, 0.8, (3.0, 1.0), (0.5, -2.0))):
        assert Rejection.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule
    older = {"statistic": "energy", "threshold": 1.5, "temperature": 0.8}
    assert Rejection.from_dict(older) == Rejection("energy", 1.5, 0.8)
    for wrong in ({}, {"statistic": "energy"}, {"statistic": "luck", "threshold": 1.0, "temperature": 1.0}):
        with pytest.raises(ConfigurationError):
            Rejection.from_dict(wrong)
    for numbers in ((math.nan, 1.0), (0.0, 0.0), (0.0, math.inf)):
        with pytest.raises(ConfigurationError):
            Rejection("energy", *numbers)
    with pytest.raises(ConfigurationError):
        Rejection("energy", 0.0, 1.0, (math.inf,))
    with pytest.raises(ConfigurationError):
        Rejection.from_dict({**older, "early": ["soon"]})
    for rows in ([1.0], [["soon"]], [[math.nan]]):
        with pytest.raises(ConfigurationError):
            Rejection.from_dict({**older, "by_row": rows})
    with pytest.raises(ConfigurationError, match="has no late"):
        Rejection.from_dict({**older, "late": [1.0]})
