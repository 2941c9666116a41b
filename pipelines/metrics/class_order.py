"""Classes that follow each other: the phases of a swing, the steps of a recipe.

A row by itself cannot tell standing before a swing from standing after it, and a network that sees a second says
"finish" now and then before anything has begun. What can follow what is known, though: a class stays, or the next one
begins, and after the last comes the first again. An online filter (a hidden Markov model, forwards) weighs every row's
probabilities with that. Nothing is ever taken back: once a class is over, it can only come again after all the others.
So the labels of a stream run through the classes in order, whatever the rows say, at no delay of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError

Probabilities = NDArray[np.float64]
LEAST = 1e-3  # probability: no single row rules a class out
HALF = 0.5  # a class is over when it is likelier that it is over than not
MOST_DWELL = 1e6  # seconds


@dataclass(frozen=True)
class ClassOrder:
    """How a model's classes follow each other, in the order of its class names."""

    # Seconds for which each class is expected to stay before any row is looked at; the last one: until the first comes
    # again. Where the model itself knows how long a class lasts, a short time leaves the decision to it.
    dwells: tuple[float, ...]
    trust: float  # power of a row's probabilities: below 1, since rows beside each other repeat what they say
    alike: bool = False  # no row can tell the first class from the last (rest before and after): both have their sum

    def __post_init__(self) -> None:
        if len(self.dwells) < 2 or not all(0 < dwell <= MOST_DWELL for dwell in self.dwells):
            raise ConfigurationError(
                f"an order needs two classes or more, each with seconds that it lasts: {self.dwells}"
            )
        if not 0 < self.trust <= 1:
            raise ConfigurationError(f"the trust in a row must be above 0 and at most 1, not {self.trust}")

    def to_dict(self) -> dict[str, Any]:
        return {"dwells": list(self.dwells), "trust": self.trust, "alike": self.alike}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> ClassOrder:
        """The inverse of `to_dict`; unknown and missing keys are errors."""
        names = {"dwells", "trust", "alike"}
        if not isinstance(value, Mapping) or set(value) != names or not isinstance(value["alike"], bool):
            raise ConfigurationError(f"not an order of classes, which has {', '.join(sorted(names))}")
        try:
            return cls(tuple(float(dwell) for dwell in value["dwells"]), float(value["trust"]), value["alike"])
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"not an order of classes: {error}") from error


class OrderFilter:
    """The class of one stream, row by row."""

    def __init__(self, order: ClassOrder, hop: float) -> None:
        """hop: seconds from row to row."""
        self._trust, self._alike = order.trust, order.alike
        self._leaving = 1 - np.exp(-hop / np.array(order.dwells))  # (classes,) probability that a row is the last one
        self._belief = np.zeros(len(order.dwells))  # (classes,) of the newest row; classes that are over have none
        self._place = 0
        self.restart()

    def restart(self) -> None:
        """At the start of a stream, which is in the first class."""
        self._belief[:] = 0
        self._belief[0] = 1
        self._place = 0

    def push(self, probabilities: Probabilities) -> Probabilities:
        """A row's probabilities (classes,) -> those that know what came before (classes,): the largest is the label."""
        leaving = self._belief * self._leaving
        said = np.array(probabilities)
        if self._alike:
            said[[0, -1]] = said[0] + said[-1]
        belief = (self._belief - leaving + np.roll(leaving, 1)) * np.maximum(said, LEAST) ** self._trust
        belief /= belief.sum()
        if belief[self._place] < HALF:
            belief[self._place] = 0
            belief /= belief.sum()
            self._place = (self._place + 1) % len(belief)
        self._belief = belief
        if belief[self._place] < HALF:
            # Already in a class further on: this one, which must have been, gets the row, and the next row goes on.
            named = np.zeros(len(belief))
            named[self._place] = 1
            return named
        return np.array(belief)

    def decode(self, probabilities: Probabilities) -> Probabilities:
        """A whole recording from its start, (rows, classes) -> (rows, classes)."""
        self.restart()
        return np.stack([self.push(row) for row in probabilities])

    def state(self) -> list[float]:
        """Plain JSON values for a snapshot: the belief, and the place of the class."""
        return [*self._belief.tolist(), float(self._place)]

    def restore(self, state: Sequence[float]) -> None:
        """What `state` gave; nothing: the start of a stream."""
        self.restart()
        if state:
            self._belief = np.array(state[:-1])
            self._place = int(state[-1])


def check_state(state: Sequence[float], classes: int) -> None:
    """ValueError where numbers are no state of a filter of so many classes."""
    if not state:
        return
    *belief, place = state
    if len(belief) != classes or not all(0.0 <= value <= 1.0 for value in belief):
        raise ValueError("an order of classes that is none")
    if not math.isclose(sum(belief), 1.0, rel_tol=1e-9) or place not in range(classes):
        raise ValueError("an order of classes that is none")
