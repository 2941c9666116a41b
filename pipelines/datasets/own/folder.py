"""A user's own data: folders of clips, or recordings with a table of events.

- Clips: `clips/LABEL/*.wav|mp4|…` (or `LABEL/…` right in the root), or `train/LABEL/…`, `validation/LABEL/…`,
  `test/LABEL/…`. The label is the name of the folder. `.npy` feature files may stand in place of media.
- ESC-50 as it is published: `audio/*.wav` and `meta/esc50.csv`.
- Clips with `mix_streams`: the same, mixed into streams in which they are to be spotted (see `folder_streams`).
- Events: recordings or `.npy` feature files, and a table `file,start,end,label` (see `annotation_csv`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.own.folder_events import open_events
from pipelines.datasets.own.folder_streams import MixingRequest, mix_clips
from pipelines.datasets.own.media_check import check_media, is_media
from pipelines.datasets.own.split_rule import UNDECIDED, SplitRule
from pipelines.datasets.published.esc50 import is_esc50, open_esc50
from pipelines.datasets.rows.feature_files import attach_features, common_spec, is_feature_file
from pipelines.errors import InputError, UsageError
from pipelines.wording import listed

OBTAIN = (
    "It should contain clips/LABEL/*.wav (or .mp4 and the like) for classification, or recordings or .npy features "
    "and a table labels.csv with the columns file,start,end,label for detection (`cotrans data list` lists public sets)"
)
TABLES = ("labels.csv", "annotations.csv")
SPLIT_FOLDERS = {
    "train": "train",
    "validation": "validation",
    "val": "validation",
    "valid": "validation",
    "test": "test",
}
BESIDE = frozenset({".npy", ".json"})  # features with their times and manifests
NOT_LABELS = frozenset({"features", "__MACOSX"})


def open(
    root: Path,
    *,
    annotations: Path | None = None,
    classes: Sequence[str] | None = None,
    multi_label: bool = False,
    mix_streams: bool = False,
    seconds: float | None = None,
    passes: int | None = None,
    pitch: float | None = None,
    rooms: float | None = None,
    validation: float | None = None,
    test: float | None = None,
    split_seed: int = 0,
    group: str | None = None,
    fold: str | None = None,
    test_fold: str | None = None,
    feature_dir: Path | None = None,
    hop: float | None = None,
    label_rule: str | None = None,
) -> Dataset:
    """The clips or recordings in `root`.

    `annotations`: the table of events (default: labels.csv or annotations.csv in `root`; without one, the
    folder holds clips). `classes` fixes the classes and their order (default: sorted). `multi_label` allows
    events that overlap. `validation` (default 0.2) and `test` (default 0) are fractions, drawn for each name
    on its own with `split_seed`, unless split folders or a `split` column decide. `group` is a regular
    expression that finds the group of a name (its first bracket): a group is never divided. `fold` and
    `test_fold` hold out one group for validation and test (without `group`: the number before the first
    hyphen of the file name). `hop` is the seconds between rows of the feature files. `label_rule`: how times become
    rows (`middle` or `lstr`). `mix_streams` makes streams of the clips, of about `seconds` each, with every training
    clip in `passes` of them, at a pitch that is up to `pitch` (a share) higher or lower; a share `rooms` of the
    training streams is heard through another room and microphone.
    """
    mixing = MixingRequest(seconds, passes, pitch, rooms)
    if not mix_streams:
        mixing.refuse()
    rule = SplitRule(validation, test, split_seed, group, fold, test_fold)
    table = annotations or next((root / name for name in TABLES if (root / name).is_file()), None)
    if table is not None and mix_streams:
        raise UsageError(f"--mix-streams is for folders of clips, and {table} has events: leave one of them out")
    if table is not None:
        table = table if table.is_file() or table.is_absolute() else root / table
        dataset = open_events(root, table, classes=classes, multi_label=multi_label, rule=rule, hop=hop)
        dataset = dataset if label_rule is None else dataset.with_label_rule(label_rule)
    elif label_rule is not None:
        raise UsageError(
            f"--label-rule is for recordings with a table of events, and {root} has no labels.csv: write one, or "
            "leave it out"
        )
    elif multi_label:
        raise UsageError(
            f"--multi-label is for recordings with a table of events, and {root} has no labels.csv: write one, or "
            "leave it out"
        )
    else:
        dataset = open_esc50(root, classes, rule) if is_esc50(root) else _open_clips(root, classes, rule)
        if mix_streams:
            return attach_features(mix_clips(dataset, mixing, split_seed), feature_dir, hop=hop)
        if hop is not None and feature_dir is None and not any(item.features for item in dataset.items):
            raise UsageError(
                f"--hop is for recordings with a table of events, or for feature files; {root} has clips alone: name "
                "extractors with --features, or leave it out"
            )
    if feature_dir is not None:
        return attach_features(dataset, feature_dir, hop=hop)
    return _with_own_features(dataset, hop)


def _with_own_features(dataset: Dataset, hop: float | None) -> Dataset:
    """The dataset with what the manifests beside its own feature files say; all items have features, or none has."""
    without = [item.name for item in dataset.items if not item.features]
    if len(without) == len(dataset.items):
        return dataset
    if without:
        raise InputError(
            f"{dataset.root}: features for some items and not for others: {listed(without)} have none; extract them "
            "too, or name a folder with --feature-dir"
        )
    spec = common_spec(path.with_suffix(".json") for item in dataset.items for path in item.features)
    return replace(dataset, spec=spec, hop=hop or (spec.hop if spec else None))


def _open_clips(root: Path, classes: Sequence[str] | None, rule: SplitRule) -> Dataset:
    base = root / "clips" if (root / "clips").is_dir() else root
    divided = [path for path in _folders(base) if path.name.lower() in SPLIT_FOLDERS and _folders(path)]
    label_folders = [
        (path, SPLIT_FOLDERS[place.name.lower()] if divided else UNDECIDED)
        for place in (divided or [base])
        for path in _folders(place)
    ]
    if not label_folders:
        raise InputError(f"dataset folder: no label folders in {base}. {OBTAIN}")
    labels = sorted({path.name for path, _ in label_folders})
    class_names = tuple(classes or labels)
    unknown = [label for label in labels if label not in class_names]
    if unknown:
        raise InputError(
            f"dataset folder: folders that are no class in --classes: {listed(unknown)} in {base}; add them, or move "
            "the folders away"
        )
    items: list[Item] = []
    problems: list[str] = []
    for folder, split in label_folders:
        clips, damaged = _clips(base, folder, split, class_names.index(folder.name))
        items += clips
        problems += damaged
    for index, label in enumerate(class_names):
        if not any(item.label == index for item in items):
            raise InputError(
                f"dataset folder: the label '{label}' occurs in no split: no usable clips of it in {base}; add some, "
                "or remove the folder"
            )
    items = rule.apply(items)
    trained = {item.label for item in items if item.split == "train"}
    untrained = [label for index, label in enumerate(class_names) if index not in trained]
    if untrained:
        problems.append(f"labels without a training clip: {listed(untrained)}")
    return Dataset("folder", "clips", root, class_names, tuple(items), problems=tuple(problems))


def _clips(base: Path, folder: Path, split: str, label: int) -> tuple[list[Item], list[str]]:
    """The clips of one label folder, and what was left out."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    durations, problems = check_media(path for path in paths if is_media(path))
    items: dict[str, Item] = {}
    for path in durations:
        name = path.relative_to(base).with_suffix("").as_posix()
        if name in items:
            raise InputError(f"two clips with the same name: {items[name].media} and {path}: rename one of them")
        items[name] = Item(name, split, media=path, label=label, duration=durations[path])
    for path in filter(is_feature_file, paths):
        name = path.relative_to(base).with_suffix("").as_posix()
        items[name] = replace(items.get(name) or Item(name, split, label=label), features=(path,))
    other = [path.name for path in paths if not is_media(path) and path.suffix not in BESIDE]
    if other:
        problems.append(f"not media, left out: {listed(other)} in {folder}")
    return list(items.values()), problems


def _folders(place: Path) -> list[Path]:
    return sorted(
        path
        for path in place.iterdir()
        if path.is_dir() and not path.name.startswith(".") and path.name not in NOT_LABELS
    )
