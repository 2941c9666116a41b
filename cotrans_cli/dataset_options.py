"""The options that say which dataset, shared by `train`, `evaluate` and `data inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Name = Annotated[str, typer.Option("--dataset", help="gtzan, thumos14, tvseries, folder or digits.")]
Root = Annotated[Path | None, typer.Option("--root", help="The dataset's folder (default: COTRANS_DATA).")]
FeatureDir = Annotated[
    Path | None, typer.Option("--feature-dir", help="Folder of feature files that exist already, in any layout.")
]
FeatureSet = Annotated[
    str | None,
    typer.Option("--feature-set", help="A piece of the name that picks among several feature sets: kin, anet."),
]
Parts = Annotated[str | None, typer.Option("--parts", help="Which parts of the features to join: rgb,flow,audio.")]
Hop = Annotated[float | None, typer.Option("--hop", help="Seconds between feature rows, where no file says it.")]
Split = Annotated[
    str | None,
    typer.Option("--split", help="gtzan: random or fault-filtered. tvseries: oad or original."),
]
SplitSeed = Annotated[int | None, typer.Option("--split-seed", help="Seed of random splits and of digit streams.")]
Validation = Annotated[float | None, typer.Option("--validation", help="Fraction to validate on.")]
Test = Annotated[float | None, typer.Option("--test", help="folder: fraction to test on.")]
Group = Annotated[
    str | None,
    typer.Option("--group", help="folder: a regular expression whose first bracket is what no split may divide."),
]
Fold = Annotated[
    str | None, typer.Option("--fold", help="The group (folder) or speaker (digits) to keep for validation.")
]
TestFold = Annotated[str | None, typer.Option("--test-fold", help="The group or speaker to keep for test.")]
Annotations = Annotated[
    Path | None, typer.Option("--annotations", help="folder: table file,start,end,label (default: labels.csv).")
]
Classes = Annotated[
    str | None, typer.Option("--classes", help="folder: the classes and their order, separated by commas.")
]
MultiLabel = Annotated[bool, typer.Option("--multi-label", help="folder: events may overlap.")]
Seconds = Annotated[float | None, typer.Option("--seconds", help="digits: length of a stream.")]
Passes = Annotated[int | None, typer.Option("--passes", help="digits: how often each training recording is used.")]


def words(text: str | None) -> tuple[str, ...] | None:
    """A list from a comma-separated option."""
    return None if text is None else tuple(word.strip() for word in text.split(",") if word.strip())
