"""Drawn divisions: nothing is left without training data."""

from __future__ import annotations

import pytest

from pipelines.datasets.splits import stable_fractions


@pytest.mark.parametrize(("validation", "test"), [(0.0, 0.4), (0.2, 0.4), (0.4, 0.0), (0.1, 0.8)])
def test_every_class_has_something_to_train_on(validation: float, test: float) -> None:
    groups = [("cat/1", "cat"), ("cat/2", "cat"), ("dog/1", "dog")]
    for seed in range(60):
        chosen = stable_fractions(groups, seed, validation, test)
        assert "train" in (chosen["cat/1"], chosen["cat/2"]), seed
        assert chosen["dog/1"] == "train", seed
