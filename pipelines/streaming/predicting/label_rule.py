"""Which label a frame gets, and when it gets none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.errors import UsageError
from pipelines.wording import did_you_mean

BACKGROUND = "background"  # the class in which nothing happens


@dataclass(frozen=True)
class LabelRule:
    """What the user wants to be told. Without a threshold of theirs, the model's own rule for "none" holds."""

    threshold: float | None = None  # a class that scores less is not there
    thresholds: Mapping[str, float] = field(default_factory=dict)  # of single classes, before the one for all
    only: frozenset[str] = frozenset()  # classes that are told of; empty: all
    hidden: frozenset[str] = frozenset()  # classes that are not

    def shows(self, label: str) -> bool:
        """Whether the user wants to hear of a class at all."""
        return label not in self.hidden and (not self.only or label in self.only)

    def threshold_of(self, label: str) -> float | None:
        """The user's threshold for a class; None: they have not said one."""
        return self.thresholds.get(label, self.threshold)

    def check_classes(self, class_names: Sequence[str]) -> None:
        """Refuse names of classes that the model does not have."""
        for option, names in (("--threshold", self.thresholds), ("--only", self.only), ("--hide", self.hidden)):
            for name in sorted(names):
                if name not in class_names:
                    hint = did_you_mean(name, class_names, f": choose from {', '.join(class_names)}")
                    raise UsageError(f"{option}: the model has no class '{name}'{hint}")


def parse_thresholds(texts: Sequence[str]) -> tuple[float | None, dict[str, float]]:
    """ "0.5" for all classes and "rain=0.7" for one, as they stand on a command line."""
    common: float | None = None
    by_class: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not 0.0 <= value <= 1.0:
            raise UsageError(f"--threshold must be from 0 to 1, alone or as CLASS=NUMBER, not {text}")
        if not equals:
            common = value
        else:
            by_class[name] = value
    return common, by_class
