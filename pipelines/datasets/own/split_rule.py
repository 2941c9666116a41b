"""How a user's own items are divided: by what the folder or table says, by held-out groups, or by fractions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipelines.datasets.item import Item
from pipelines.datasets.own.splits import check_fractions, group_of, stable_fractions
from pipelines.errors import InputError, UsageError
from pipelines.wording import listed

UNDECIDED = ""  # the split of an item before a rule has been applied
VALIDATION = 0.2  # the default fraction
FOLD_PREFIX = r"(?:^|/)(\d+)-[^/]*$"  # "dog/1-30226-A-0": fold 1, as in ESC-10 and ESC-50


@dataclass(frozen=True)
class SplitRule:
    """The options of a division. `fold` and `test_fold` are groups; `group` is a pattern that finds an item's group."""

    validation: float | None = None
    test: float | None = None
    seed: int = 0
    group: str | None = None
    fold: str | None = None
    test_fold: str | None = None

    def __post_init__(self) -> None:
        check_fractions(self.validation or 0.0, self.test or 0.0)
        if self.fold is not None and self.validation:  # 0, as in a recipe that trains on everything, asks for nothing
            raise UsageError("--fold says what to validate on: --validation does not go with it")
        if self.test_fold is not None and self.test is not None:
            raise UsageError("--test-fold says what to test on: --test does not go with it")
        if self.fold is not None and self.fold == self.test_fold:
            raise UsageError(
                f"group '{self.fold}' cannot be for validation and for test: choose another for one of them"
            )

    @property
    def pattern(self) -> str | None:
        """Where the group of a name is; folds without a pattern are numbers before the first hyphen."""
        folds = self.fold is not None or self.test_fold is not None
        return FOLD_PREFIX if self.group is None and folds else self.group

    def apply(self, items: Sequence[Item]) -> list[Item]:
        """The items with a split each."""
        if self.pattern is not None and not any(item.group for item in items):
            items = [replace(item, group=group_of(item.name, self.pattern)) for item in items]
        undecided = [item.name for item in items if item.split == UNDECIDED]
        if not undecided:
            return self._keep_given(items)
        if len(undecided) < len(items):
            raise InputError(
                f"{len(undecided)} of {len(items)} items have no split, the others do: {listed(undecided)}; give all "
                "of them one, or none"
            )
        return self._by_fold(items) if self.fold or self.test_fold else self._by_fraction(items)

    def _keep_given(self, items: Sequence[Item]) -> list[Item]:
        if self.fold or self.test_fold or self.test is not None:
            raise UsageError("the items say themselves which split they are in: --fold and --test do not go with it")
        if self.validation is None:
            return list(items)
        if any(item.split == "validation" for item in items):
            raise UsageError("the items say themselves which are for validation: --validation does not go with it")
        training = [item for item in items if item.split == "train"]
        chosen = self._draw(training, self.validation, 0.0)
        return [replace(item, split=chosen.get(item.name, item.split)) for item in items]

    def _by_fold(self, items: Sequence[Item]) -> list[Item]:
        groups = sorted({item.group for item in items if item.group})
        for wanted in (self.fold, self.test_fold):
            if wanted is not None and wanted not in groups:
                raise UsageError(f"no items of group '{wanted}': the groups are {listed(groups, most=12)}")
        held_out = {self.fold: "validation", self.test_fold: "test"}
        remaining = [item for item in items if item.group not in held_out]
        chosen = self._draw(remaining, self.validation or 0.0, self.test or 0.0)
        return [replace(item, split=held_out.get(item.group) or chosen[item.name]) for item in items]

    def _by_fraction(self, items: Sequence[Item]) -> list[Item]:
        validation = VALIDATION if self.validation is None else self.validation
        chosen = self._draw(items, validation, self.test or 0.0)
        return [replace(item, split=chosen[item.name]) for item in items]

    def _draw(self, items: Sequence[Item], validation: float, test: float) -> dict[str, str]:
        """A split for each item name; a group is drawn as one, and every class gives its share."""
        classes: dict[str, set[str]] = {}  # of what is drawn as one
        for item, label in zip(items, _drawn_labels(items), strict=True):
            classes.setdefault(item.group or item.name, set()).add(label)
        # A group that has several classes, such as a speaker, is drawn among all others of that kind.
        strata = [(name, next(iter(labels)) if len(labels) == 1 else "") for name, labels in classes.items()]
        drawn = stable_fractions(strata, self.seed, validation, test)
        return {item.name: drawn[item.group or item.name] for item in items}


def _drawn_labels(items: Sequence[Item]) -> list[str]:
    """The class that each item is drawn among: of its clip, or of its events the one that fewest recordings have."""
    present = [{segment.label for segment in item.segments or ()} for item in items]
    recordings = Counter(label for labels in present for label in labels)
    rarest = [min(labels, key=lambda label: (recordings[label], label), default=None) for labels in present]
    return [str(item.label if item.label is not None else label) for item, label in zip(items, rarest, strict=True)]
