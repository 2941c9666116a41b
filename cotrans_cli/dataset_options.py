"""The options that say which dataset, shared by `train`, `evaluate` and `data inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cotrans_cli.options import option

DATA = "Data"  # the panel of the help page

# `tests/cli/test_dataset_options.py`: every option of every dataset is a flag of all three commands.
Name = Annotated[str, option("--dataset", panel=DATA, help="gtzan, thumos14, tvseries, folder or digits.")]
Root = Annotated[Path | None, option("--root", panel=DATA, help="The dataset's folder (default: COTRANS_DATA).")]
Split = Annotated[
    str | None, option("--split", panel=DATA, help="gtzan: random or fault-filtered. tvseries: oad or original.")
]
SplitSeed = Annotated[
    int | None, option("--split-seed", panel=DATA, help="Seed of random splits and of digit streams.", least=0)
]
Validation = Annotated[float | None, option("--validation", panel=DATA, help="Fraction to validate on.")]
Test = Annotated[float | None, option("--test", panel=DATA, help="folder: fraction to test on.")]
Group = Annotated[
    str | None,
    option("--group", panel=DATA, help="folder: a regular expression whose first bracket is what no split may divide."),
]
Fold = Annotated[
    str | None, option("--fold", panel=DATA, help="The group (folder) or speaker (digits) to keep for validation.")
]
TestFold = Annotated[str | None, option("--test-fold", panel=DATA, help="The group or speaker to keep for test.")]
More = Annotated[
    list[str] | None,
    option("--data", panel=DATA, metavar="KEY=VALUE", help="The same as a recipe writes it: split_seed=3."),
]
FeatureDir = Annotated[
    Path | None, option("--feature-dir", panel=DATA, help="Folder of feature files that exist already, in any layout.")
]
FeatureSet = Annotated[
    str | None,
    option("--feature-set", panel=DATA, help="A piece of the name that picks among several feature sets: kin, anet."),
]
Parts = Annotated[
    str | None, option("--parts", panel=DATA, help="Which parts of the features to join: rgb,flow,audio.")
]
Hop = Annotated[float | None, option("--hop", panel=DATA, help="Seconds between feature rows.")]
FeatureOption = Annotated[
    list[str] | None,
    option("--feature-option", panel=DATA, metavar="KEY=VALUE", help="Option of an extractor (output=tags)."),
]
Cache = Annotated[Path | None, option("--cache", panel=DATA, help="Where extracted features are kept.")]
Annotations = Annotated[
    Path | None, option("--annotations", panel=DATA, help="folder: table file,start,end,label (default: labels.csv).")
]
Classes = Annotated[
    str | None, option("--classes", panel=DATA, help="folder: the classes and their order, separated by commas.")
]
MultiLabel = Annotated[bool, option("--multi-label", panel=DATA, help="folder: events may overlap.")]
Seconds = Annotated[float | None, option("--seconds", panel=DATA, help="digits: length of a stream.")]
Passes = Annotated[
    int | None, option("--passes", panel=DATA, help="digits: how often each training recording is used.", least=1)
]
Pitch = Annotated[
    float | None,
    option("--pitch", panel=DATA, help="digits: share that voices of training streams vary by.", least=0),
]
OneVoice = Annotated[
    bool, option("--one-voice", panel=DATA, help="digits: every training stream holds one voice alone.")
]
