"""TVSeries: 27 episodes of six series, 30 everyday actions that may happen at the same time, and background.

The original annotation (`GT-train.txt`, `GT-val.txt`, `GT-test.txt`) has one action instance per line,
separated by tabs: episode, class name, start and end in seconds, then properties of the instance. Times in
seconds fit features at any rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item, Segment
from pipelines.datasets.own.splits import carve_validation
from pipelines.datasets.published.annotated import attach_streams
from pipelines.datasets.published.shipped import shipped_list
from pipelines.errors import InputError, UsageError
from pipelines.wording import did_you_mean, listed

OBTAIN = (
    "It should contain the annotation files GT-train.txt, GT-val.txt and GT-test.txt (or target_perframe/EPISODE.npy "
    "of LSTR) and features (OadTR's pickles, or rgb_…/EPISODE.npy and flow_…/EPISODE.npy): the authors of TVSeries "
    "give the annotation, the videos have to be bought"
)
BACKGROUND = 0
FILES = {"train": "GT-train.txt", "validation": "GT-val.txt", "test": "GT-test.txt"}
FOLDERS = ("", "annotations", "annotation", "data")
SPLITS = ("oad", "original")


def open(
    root: Path,
    *,
    split: str = "oad",
    validation: float | None = None,
    split_seed: int = 0,
    feature_dir: Path | None = None,
    feature_set: str | None = None,
    parts: Sequence[str] | None = None,
    hop: float | None = None,
    label_rule: str | None = None,
) -> Dataset:
    """The episodes in `root`, with features from `feature_dir` (default: `root`).

    `split`: `oad` trains on the training and validation episodes (20) and tests on the others (7), as
    published work on online action detection does; `original` keeps the validation episodes apart.
    `validation` takes that fraction of the training episodes for validation. `hop` is the seconds between
    feature rows, where their layout does not say it. `label_rule`: how times become rows (`middle` or `lstr`).
    """
    if split not in SPLITS:
        raise UsageError(f"tvseries has no split '{split}': choose from {', '.join(SPLITS)}")
    if split == "original" and validation is not None:
        raise UsageError("the original split of tvseries has validation episodes: --validation does not go with it")
    lists = shipped_list("tvseries")
    class_names = tuple(lists["class_names"])
    official = {name: part for part in ("train", "test") for name in lists[part]}
    items, problems = _annotated(root, class_names, official, split)
    missing = [name for name in official if name not in {item.name for item in items}]
    if missing:
        problems.append(f"{len(missing)} episodes have no annotation, left out: {listed(missing)}")
    items = carve_validation(items, validation or 0.0, split_seed)
    dataset = Dataset(
        "tvseries",
        "frames",
        root,
        class_names,
        tuple(items),
        hop=hop,
        background=BACKGROUND,
        multi_label=True,
        problems=tuple(problems),
    )
    if label_rule is not None:
        if any(item.targets for item in items):
            raise UsageError(f"--label-rule is for times in text files; {root} has rows of labels: leave it out")
        dataset = dataset.with_label_rule(label_rule)
    return attach_streams(dataset, feature_dir, feature_set=feature_set, parts=parts, hop=hop)


def _annotated(
    root: Path, class_names: Sequence[str], official: dict[str, str], split: str
) -> tuple[list[Item], list[str]]:
    """Items from the original text files or from LSTR's per-frame targets."""
    places = [root / folder for folder in FOLDERS]
    texts = {
        part: place / name for place in reversed(places) for part, name in FILES.items() if (place / name).is_file()
    }
    if texts:
        return _from_texts(texts, class_names, official, split)
    for place in places:
        perframe = sorted((place / "target_perframe").glob("*.npy"))
        if perframe:
            if split == "original":
                raise UsageError(
                    "the original split of tvseries is in GT-val.txt, which is not there: add it, or use --split oad"
                )
            files = {path.stem: path for path in perframe}
            return [Item(name, part, targets=files[name]) for name, part in official.items() if name in files], []
    pickles = [path for place in places for path in sorted(place.glob("*anno*.p*kl*"))]
    if pickles:
        # The only such pickle in circulation: class 0 merged with background, and times right at 5 Hz alone.
        raise InputError(
            f"{pickles[0]}: annotation pickles of tvseries mix its first class with background; use the original "
            "GT-train.txt, GT-val.txt and GT-test.txt"
        )
    raise InputError(f"dataset tvseries: no annotations in {root}. {OBTAIN}")


def _from_texts(
    texts: dict[str, Path], class_names: Sequence[str], official: dict[str, str], split: str
) -> tuple[list[Item], list[str]]:
    problems = [f"{FILES[part]} is not there: its episodes are left out" for part in FILES if part not in texts]
    segments: dict[str, list[Segment]] = {}
    origin: dict[str, str] = {}
    strangers: set[str] = set()
    for part, path in texts.items():
        for episode, segment in read_instances(path, class_names):
            if episode not in official:
                strangers.add(episode)
                continue
            segments.setdefault(episode, []).append(segment)
            origin[episode] = part
    if strangers:
        problems.append(f"episodes that are in no split, left out: {listed(sorted(strangers))}")
    items = [
        Item(name, origin[name] if split == "original" else part, segments=tuple(segments[name]))
        for name, part in official.items()
        if name in segments
    ]
    return items, problems


def read_instances(path: Path, class_names: Sequence[str]) -> list[tuple[str, Segment]]:
    """(episode, segment) for every line of an annotation file."""
    known = {name.casefold(): index for index, name in enumerate(class_names)}
    instances = []
    # Comments at the end of a line were typed on many machines; what is needed is ASCII.
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    for number, line in enumerate(lines, start=1):
        fields = [field.strip() for field in line.split("\t")]
        if not line.strip():
            continue
        where = f"{path.name}, line {number}"
        if len(fields) < 4:
            raise InputError(f"{path}, line {number}: expected episode, class, start, end separated by tabs")
        episode, name = fields[0], fields[1]
        if number == 1 and not _is_number(fields[2]):
            continue  # a line of column names
        label = known.get(name.casefold())
        if label is None or label == BACKGROUND:
            raise InputError(f"{path}, line {number}: unknown class '{name}'{did_you_mean(name, class_names)}")
        if not (_is_number(fields[2]) and _is_number(fields[3])):
            raise InputError(f"{path}, line {number}: times must be seconds, not '{fields[2]}' and '{fields[3]}'")
        start, end = float(fields[2]), float(fields[3])
        if start < 0 or end < start:
            raise InputError(f"{path}, line {number}: the action ends ({end:g} s) before it starts ({start:g} s)")
        instances.append((episode, Segment(start, end, label, where)))
    return instances


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
