"""Dividing items between training, validation and test: seeded, and stable when files come or go."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipelines.datasets.item import Item
from pipelines.errors import UsageError

FEW = 20  # names of a class: with more, a draw by chance is near its share


def draw(seed: int, name: str) -> float:
    """A number in [0, 1) that depends on the seed and the name alone, on every machine."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def ranked(names: Iterable[str], seed: int) -> list[str]:
    """The names in a seeded random order that does not depend on the order in which they came."""
    return sorted(names, key=lambda name: (draw(seed, name), name))


def exact_fractions(names: Sequence[str], seed: int, validation: float, test: float) -> dict[str, str]:
    """A split for every name, with round(fraction × number) of them in validation and in test."""
    check_fractions(validation, test)
    order = ranked(names, seed)
    tests = round(test * len(order))
    validations = round(validation * len(order))
    return {
        name: "test" if rank < tests else "validation" if rank < tests + validations else "train"
        for rank, name in enumerate(order)
    }


def stable_fractions(
    groups: Sequence[tuple[str, str]], seed: int, validation: float, test: float = 0.0
) -> dict[str, str]:
    """A split for every (name, class): each name is drawn on its own, so that new files do not move old ones.

    Every class has something to train on and its share to validate on: a class of which none was drawn for training
    keeps the last of its validation names in training (of its test names, where all were drawn for test), and one of
    which too few were drawn for validation gives the first of its training names: one at least of two, and of a class
    with fewer than FEW names, where chance is crude, its share rounded down.
    """
    check_fractions(validation, test)
    chosen: dict[str, str] = {}
    members: dict[str, list[str]] = {}
    for name, label in groups:
        number = draw(seed, name)
        chosen[name] = "test" if number < test else "validation" if number < test + validation else "train"
        members.setdefault(label, []).append(name)
    for names in members.values():
        by_split: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
        for name in ranked(set(names), seed):
            by_split[chosen[name]].append(name)
        if not by_split["train"]:
            chosen[(by_split["validation"] or by_split["test"])[-1]] = "train"
        elif validation > 0:
            count = len(set(names))
            share = max(1, int(validation * count + 1e-9)) if count < FEW else 1
            wanting = min(share - len(by_split["validation"]), len(by_split["train"]) - 1)
            for name in by_split["train"][: max(0, wanting)]:
                chosen[name] = "validation"
    return chosen


def carve_validation(items: Iterable[Item], fraction: float, seed: int) -> list[Item]:
    """The items with that fraction of the training items moved to validation."""
    everything = list(items)
    training = [item.name for item in everything if item.split == "train"]
    chosen = exact_fractions(training, seed, fraction, 0.0)
    return [replace(item, split=chosen.get(item.name, item.split)) for item in everything]


def group_of(name: str, pattern: str | None) -> str | None:
    """The group of a name: the first bracket of the pattern, or all that it matches; no match is an error."""
    if pattern is None:
        return None
    try:
        match = re.search(pattern, name)
    except re.error as error:
        raise UsageError(f"--group '{pattern}' is not a regular expression: {error}") from error
    if match is None:
        raise UsageError(
            f"--group '{pattern}' does not match '{name}': give a pattern that finds the group in every name"
        )
    return match.group(1) if match.re.groups else match.group(0)


def check_fractions(validation: float, test: float = 0.0) -> None:
    """Fractions must be at least 0, and leave something to train on."""
    if not (0 <= validation < 1 and 0 <= test < 1 and validation + test < 1):
        raise UsageError(f"validation ({validation:g}) and test ({test:g}) must be fractions that are together below 1")
