"""Every option that a dataset may have, declared once.

A row here is a flag of `train`, `evaluate` and `data inspect`, a key of a recipe, and a keyword of the `open` of each
dataset that has it: a new option is a row here and a keyword there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import UsageError
from pipelines.features.spec import LEAST_HOP, MOST_HOP


@dataclass(frozen=True)
class OptionKind:
    """What the values of an option are."""

    flag: type[Any]  # as a command line reads it
    read: Callable[[Any], Any]  # from a command line or recipe to what `open` takes; ValueError where it is not that
    what: str  # in messages


@dataclass(frozen=True)
class DatasetOption:
    """One option. `divides`: it decides which recordings are trained on, so a score must be made with the same."""

    name: str  # of the keyword and of the key in [data.options]
    kind: OptionKind
    help: str
    least: float | None = None  # the smallest number
    divides: bool = False
    section: str = "data.options"  # of the recipe
    section_key: str | None = None  # in that section, where it has another name there

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def recipe_key(self) -> str:
        return f"{self.section}.{self.section_key or self.name}"

    def typed(self, value: Any) -> Any:
        """A value of a recipe or command line as the dataset's `open` takes it."""
        try:
            result = self.kind.read(value)
        except ValueError:
            raise UsageError(f"{self.flag} must be {self.kind.what}, not {value!r}") from None
        if self.least is not None and result < self.least:
            raise UsageError(f"{self.flag} must be at least {self.least:g}, not {value}")
        return result


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _hop(value: Any) -> float:
    number = _number(value)
    if not LEAST_HOP <= number <= MOST_HOP:
        raise ValueError
    return number


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _list(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else map(str, value)
    return tuple(part.strip() for part in parts if part.strip())


TEXT = OptionKind(str, str, "text")
PLACE = OptionKind(Path, lambda value: Path(str(value)), "a path")
WHOLE = OptionKind(int, _whole, "a whole number")
NUMBER = OptionKind(float, _number, "a finite number")
HOP = OptionKind(float, _hop, f"a number of seconds from {LEAST_HOP:g} to {MOST_HOP:g}")
SWITCH = OptionKind(bool, _truth, "true or false")
LIST = OptionKind(str, _list, "a list")  # "rgb,flow" on a command line

# In the order of the help page.
DATASET_OPTIONS = (
    DatasetOption(
        "split",
        TEXT,
        "gtzan: random or fault-filtered. tvseries: oad or original. golf: sources or players.",
        divides=True,
    ),
    DatasetOption("split_seed", WHOLE, "Seed of random splits and of digit streams.", least=0, divides=True),
    DatasetOption("validation", NUMBER, "Fraction to validate on.", divides=True),
    DatasetOption("test", NUMBER, "folder: fraction to test on.", divides=True),
    DatasetOption(
        "group", TEXT, "folder: a regular expression whose first bracket is what no split may divide.", divides=True
    ),
    DatasetOption(
        "fold",
        TEXT,
        "The group (folder), speaker (digits; none: nobody) or fold (golf, gtzan) to keep for validation.",
        divides=True,
    ),
    DatasetOption("test_fold", TEXT, "The same for test (golf: 4).", divides=True),
    DatasetOption("annotations", PLACE, "folder: table file,start,end,label (default: labels.csv)."),
    DatasetOption("classes", LIST, "folder: the classes and their order, separated by commas."),
    DatasetOption("multi_label", SWITCH, "folder: events may overlap."),
    DatasetOption("mix_streams", SWITCH, "folder: streams mixed from the clips, to spot them in.", divides=True),
    DatasetOption("seconds", NUMBER, "digits, mixed streams: length of a stream.", least=5, divides=True),
    DatasetOption(
        "passes", WHOLE, "digits, mixed streams: how often each training recording is used.", least=1, divides=True
    ),
    DatasetOption(
        "pitch", NUMBER, "digits, mixed streams: share that voices of training streams vary by.", least=0, divides=True
    ),
    DatasetOption(
        "rooms",
        NUMBER,
        "digits, mixed streams: share of training streams in another room, with another microphone.",
        least=0,
        divides=True,
    ),
    DatasetOption("one_voice", SWITCH, "digits: every training stream holds one voice alone.", divides=True),
    DatasetOption(
        "as_files",
        NUMBER,
        "digits: share of training recordings that are heard as in files, too: at once and without noise.",
        least=0,
        divides=True,
    ),
    DatasetOption(
        "feature_dir",
        PLACE,
        "Folder of feature files that exist already, in any layout.",
        section="features",
        section_key="directory",
    ),
    DatasetOption("feature_set", TEXT, "A piece of the name that picks among several feature sets: kin, anet."),
    DatasetOption("parts", LIST, "Which parts of the features to join: rgb,flow,audio."),
    DatasetOption(
        "label_rule",
        TEXT,
        "Rows of a time: those whose middle lies in it (middle, the default), or that it touches (lstr).",
    ),
    DatasetOption("hop", HOP, "Seconds between feature rows.", section="features"),
)
OPTIONS_BY_NAME = {option.name: option for option in DATASET_OPTIONS}


def dividing_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a dataset's options that decide which items are trained on."""
    return {name: value for name, value in options.items() if name in OPTIONS_BY_NAME and OPTIONS_BY_NAME[name].divides}


def recipe_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same by their keys in a recipe; an option that nobody knows goes to the dataset, which refuses it."""
    return {
        OPTIONS_BY_NAME[name].recipe_key if name in OPTIONS_BY_NAME else f"data.options.{name}": value
        for name, value in options.items()
    }
