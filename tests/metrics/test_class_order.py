"""Classes that follow each other: what the filter says is the forward pass, and the labels never go back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.errors import ConfigurationError
from pipelines.metrics.class_order import LEAST, ClassOrder, OrderFilter, check_state

ORDER = ClassOrder((2.0, 0.3, 0.3, 20.0), 0.3)
HOP = 0.1
MADE: dict[str, Any] = {"dwells": [1.0, 1.0], "trust": 0.5, "alike": False}


def noisy(labels: list[int], seed: int = 0, strength: float = 2.0) -> np.ndarray:
    """Probabilities (rows, 4) that favour a label each, with noise."""
    logits = np.random.default_rng(seed).normal(0, 1, (len(labels), 4))
    logits[np.arange(len(labels)), labels] += strength
    powers = np.exp(logits)
    return powers / powers.sum(axis=1, keepdims=True)


def stretches(labels: np.ndarray) -> list[int]:
    return labels[[0, *(np.flatnonzero(np.diff(labels)) + 1)]].tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 120), st.floats(0.01, 1), st.floats(0.001, 5))
@settings(max_examples=60, deadline=None)
def test_labels_only_ever_go_on_to_the_next_class(seed: int, rows: int, trust: float, hop: float) -> None:
    rows_of_noise = np.random.default_rng(seed).dirichlet([0.3] * 4, rows)
    decoded = OrderFilter(ClassOrder(ORDER.dwells, trust), hop).decode(rows_of_noise)
    np.testing.assert_allclose(decoded.sum(axis=1), 1, rtol=1e-9)
    labels = decoded.argmax(axis=1)
    assert labels[0] in (0, 1) and set(np.diff(labels) % 4) <= {0, 1}


def test_blips_are_not_believed_and_several_rounds_are() -> None:
    """Two rounds, with rows of the last class before the first begins and of the first after the last."""
    truth = [0] * 30 + [1] * 6 + [2] * 6 + [3] * 30
    rows = noisy(truth * 2, strength=4.0)
    wrong = rows.copy()
    for place, label in ((5, 3), (11, 2), (20, 1), (60, 0), (66, 1)):
        wrong[place] = np.eye(4)[label]
    assert stretches(wrong.argmax(axis=1)) != [0, 1, 2, 3] * 2
    labels = OrderFilter(ORDER, HOP).decode(wrong).argmax(axis=1)
    assert stretches(labels) == [0, 1, 2, 3] * 2
    assert np.mean(labels == truth * 2) > 0.9


def test_until_the_first_change_it_is_the_forward_pass() -> None:
    """Against the sum over all paths, written out: the probability that the first class still lasts."""
    rows = noisy([0] * 6, seed=3)
    leave = 1 - np.exp(-HOP / np.array(ORDER.dwells))
    transitions = np.diag(1 - leave) + np.roll(np.diag(leave), 1, axis=1)
    weights = np.maximum(rows, LEAST) ** ORDER.trust
    paths = np.array(np.meshgrid(*[range(4)] * 6, indexing="ij")).reshape(6, -1).T  # every sequence of six classes
    first = np.where(paths[:, 0] == 0, transitions[0, 0], np.where(paths[:, 0] == 1, transitions[0, 1], 0.0))
    mass = first * weights[0, paths[:, 0]]
    for row in range(1, 6):
        mass *= transitions[paths[:, row - 1], paths[:, row]] * weights[row, paths[:, row]]
    expected = [mass[paths[:, -1] == label].sum() / mass.sum() for label in range(4)]
    decoded = OrderFilter(ORDER, HOP).decode(rows)
    assert decoded.argmax(axis=1).tolist() == [0] * 6
    np.testing.assert_allclose(decoded[-1], expected, rtol=1e-9)


def test_a_class_that_must_have_been_gets_a_row() -> None:
    decoded = OrderFilter(ClassOrder((0.1, 0.1, 0.1, 20.0), 1.0), HOP).decode(np.eye(4)[[0, 0, 3, 3, 3, 3, 3]])
    labels = decoded.argmax(axis=1)
    assert stretches(labels) == [0, 1, 2, 3] and labels[-1] == 3


def test_rest_after_the_last_class_is_not_the_first_again() -> None:
    """Rows of the first class at the end: rest before and after look alike, so time alone tells them apart."""
    rows = (
        np.eye(4)[[0] * 20 + [3] * 5 + [1] * 8 + [2] * 8 + [3] * 10 + [0] * 30 + [1] * 8 + [2] * 8 + [3] * 5] * 0.96
        + 0.01
    )
    alike = ClassOrder(ORDER.dwells, ORDER.trust, alike=True)
    labels = OrderFilter(alike, HOP).decode(rows).argmax(axis=1)
    assert stretches(labels) == [0, 1, 2, 3, 0, 1, 2, 3]
    assert np.flatnonzero(np.diff(labels) == -3)[0] > 70  # until there is something of the next round
    apart = OrderFilter(ORDER, HOP).decode(rows).argmax(axis=1)
    assert np.flatnonzero(np.diff(apart) == -3)[0] < 60


def test_it_goes_on_from_its_state() -> None:
    rows = noisy([0] * 20 + [1] * 6 + [2] * 6 + [3] * 20, seed=5)
    whole = OrderFilter(ORDER, HOP).decode(rows)
    for place in (1, 22, 29, 40):
        first, second = OrderFilter(ORDER, HOP), OrderFilter(ORDER, HOP)
        for row in rows[:place]:
            first.push(row)
        check_state(first.state(), 4)
        second.restore(first.state())
        np.testing.assert_array_equal([second.push(row) for row in rows[place:]], whole[place:])
        first.restore([])
        np.testing.assert_array_equal(first.push(rows[0]), whole[0])


@pytest.mark.parametrize(
    "state", [[1.0, 0.0], [0.5, 0.6, 0, 0, 0], [-1, 2, 0, 0, 0], [1, 0, 0, 0, 4], [1, 0, 0, 0, 0.5]]
)
def test_what_is_no_state_is_refused(state: list[float]) -> None:
    check_state([], 4)
    with pytest.raises(ValueError, match="order of classes that is none"):
        check_state(state, 4)


@pytest.mark.parametrize(
    "value",
    [
        MADE | {"dwells": [1.0]},
        MADE | {"dwells": [1.0, 0.0]},
        MADE | {"dwells": [1.0, float("nan")]},
        MADE | {"dwells": None},
        MADE | {"trust": 0.0},
        MADE | {"trust": 1.5},
        MADE | {"alike": 1},
        MADE | {"more": 1},
        {"dwells": [1.0, 1.0], "trust": 0.5},
        [1.0, 2.0],
    ],
)
def test_what_is_no_order_is_refused(value: Any) -> None:
    assert ClassOrder.from_dict(ORDER.to_dict()) == ORDER
    with pytest.raises(ConfigurationError):
        ClassOrder.from_dict(value)
