"""Drawn divisions: nothing is left without training data."""

from __future__ import annotations

import pytest

from pipelines.datasets.item import Item, Segment
from pipelines.datasets.own.split_rule import UNDECIDED, SplitRule
from pipelines.datasets.own.splits import stable_fractions


@pytest.mark.parametrize(("validation", "test"), [(0.0, 0.4), (0.2, 0.4), (0.4, 0.0), (0.1, 0.8)])
def test_every_class_has_something_to_train_on(validation: float, test: float) -> None:
    groups = [("cat/1", "cat"), ("cat/2", "cat"), ("dog/1", "dog")]
    for seed in range(60):
        chosen = stable_fractions(groups, seed, validation, test)
        assert "train" in (chosen["cat/1"], chosen["cat/2"]), seed
        assert chosen["dog/1"] == "train", seed


@pytest.mark.parametrize("validation", [0.1, 0.2, 0.3])
def test_every_class_has_its_share_to_validate_on(validation: float) -> None:
    sizes = {"cat": 19, "dog": 14, "owl": 5, "wren": 2}
    groups = [(f"{label}/{number}", label) for label, size in sizes.items() for number in range(size)]
    for seed in range(40):
        chosen = stable_fractions(groups, seed, validation)
        for label, size in sizes.items():
            held_out = sum(chosen[name] == "validation" for name, own in groups if own == label)
            assert max(1, int(validation * size)) <= held_out < size, (seed, label)


def test_new_names_move_none() -> None:
    groups = [(f"cat/{number}", "cat") for number in range(90)]
    for seed in range(20):
        before, after = stable_fractions(groups[:50], seed, 0.2), stable_fractions(groups, seed, 0.2)
        assert all(after[name] == split for name, split in before.items()), seed


def test_recordings_are_drawn_by_their_rarest_event_and_groups_as_one() -> None:
    items = [
        Item(f"{number}", UNDECIDED, segments=(Segment(0, 1, 1), *([Segment(1, 2, 2)] if number < 4 else [])))
        for number in range(14)
    ]
    for seed in range(20):
        split = {item.name: item.split for item in SplitRule(seed=seed).apply(items)}
        assert 1 <= sum(split[str(number)] == "validation" for number in range(4)) < 4
        assert sum(part == "validation" for part in split.values()) >= 3  # 14 recordings once gave 13 and 1
    spoken = [Item(f"{label}-{who}", UNDECIDED, label=label, group=who) for label in range(3) for who in "abcdefghij"]
    for seed in range(20):
        held_out = {item.group for item in SplitRule(seed=seed).apply(spoken) if item.split == "validation"}
        assert len(held_out) >= 2
