"""What training and evaluation see of every dataset, whatever its files look like."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pipelines.datasets.item import Item
from pipelines.errors import ConfigurationError, InputError, UsageError
from pipelines.features.spec import FeatureSpec

if TYPE_CHECKING:
    import pandas

# clips: one label for each recording. frames: labels for every row of the feature stream.
Kind = Literal["clips", "frames"]
# How times become rows: see `frame_targets.py`.
LabelRule = Literal["middle", "lstr"]
LABEL_RULES: tuple[LabelRule, ...] = ("middle", "lstr")
SPLITS = ("train", "validation", "test")
ALL = "all"  # the name of all splits together, for data that no model was trained on
# Rows by which features and labels of one recording may differ in length; the longer is trimmed. Feature
# rates and codecs round differently at the end of a file; a larger difference means that the two do not
# belong together.
TRIM = 10


@dataclass(frozen=True)
class Dataset:
    """Items with their splits, classes and what is to be left out of loss and score."""

    name: str
    kind: Kind
    root: Path
    class_names: tuple[str, ...]
    items: tuple[Item, ...]
    hop: float | None = None  # seconds between rows of feature files and targets, where it is known
    spec: FeatureSpec | None = None  # what the feature files hold, where cotrans wrote them
    background: int | None = None  # the class of frames in which nothing happens; not scored
    ignored: tuple[int, ...] = ()  # frames of these classes are left out of loss and score (ambiguous)
    multi_label: bool = False  # a frame may have several labels at once
    spotted: bool = False  # its events are short and to be spotted: found or missed, soon or late
    label_rule: LabelRule = "middle"  # how the times of segments become rows
    ordered: bool = False  # every recording runs through the classes once, in their order
    trim: int = TRIM
    problems: tuple[str, ...] = ()  # what was left out and why, one line each

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that have items, in the order train, validation, test."""
        present = {item.split for item in self.items}
        return tuple(split for split in SPLITS if split in present)

    def split(self, name: str) -> tuple[Item, ...]:
        """The items of one split, or of all; an unknown or empty one is an error that says what there is."""
        chosen = tuple(item for item in self.items if name in (item.split, ALL))
        if not chosen:
            there = ", ".join(f"{split} ({len(self.split(split))})" for split in self.splits) or "none at all"
            hint = f"; {self.problems[0]}" if self.problems else ""
            raise InputError(f"dataset {self.name}: the split '{name}' has no items; there are: {there}{hint}")
        return chosen

    @property
    def scored_classes(self) -> tuple[int, ...]:
        """Class indices that a score is a mean over: neither background nor ignored."""
        left_out = {*self.ignored, self.background}
        return tuple(index for index in range(len(self.class_names)) if index not in left_out)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each recording: name, split, label of a clip, media, features, seconds."""
        import pandas

        rows = [
            {
                "name": item.name,
                "split": item.split,
                "label": None if item.label is None else self.class_names[item.label],
                "media": None if item.media is None else str(item.media),
                "features": ", ".join(map(str, item.features)) or None,
                "seconds": item.duration,
            }
            for item in self.items
        ]
        return pandas.DataFrame(rows, columns=["name", "split", "label", "media", "features", "seconds"])

    def with_classes(self, names: tuple[str, ...]) -> Dataset:
        """The same items with labels that are indices into `names`, which must hold all classes of the dataset.

        Files of per-frame targets have a column for each class in the dataset's own order, and stay what they are.
        """
        if names == self.class_names:
            return self
        if any(item.targets for item in self.items):
            raise ConfigurationError(
                f"dataset {self.name}: its files of targets have columns for {', '.join(self.class_names)}, in this "
                f"order, not for {', '.join(names)}"
            )
        new = {old: names.index(name) for old, name in enumerate(self.class_names)}
        items = tuple(
            replace(
                item,
                label=None if item.label is None else new[item.label],
                segments=item.segments
                and tuple(replace(segment, label=new[segment.label]) for segment in item.segments),
            )
            for item in self.items
        )
        return replace(
            self,
            class_names=names,
            items=items,
            background=None if self.background is None else new[self.background],
            ignored=tuple(new[index] for index in self.ignored),
        )

    def with_label_rule(self, rule: str) -> Dataset:
        """The same dataset with another rule for times that become rows."""
        for known in LABEL_RULES:
            if rule == known:
                return replace(self, label_rule=known)
        raise UsageError(f"there is no label rule '{rule}': choose from {', '.join(LABEL_RULES)}")

    def with_items(self, items: Iterable[Item], *problems: str, hop: float | None = None) -> Dataset:
        """The same dataset with other items, further problems and, once features are known, their hop."""
        return replace(
            self,
            items=tuple(items),
            problems=(*self.problems, *problems),
            hop=self.hop if hop is None else hop,
        )
