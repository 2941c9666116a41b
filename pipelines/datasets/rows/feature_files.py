"""Finding the feature files of a dataset's items in a folder, whichever program wrote them.

| layout | files |
| --- | --- |
| npy | `NAME.npy`, as `cotrans extract` writes them |
| lstr | `rgb_…/NAME.npy`, `flow_…/NAME.npy`, `audio_…/NAME.npy` |
| parts | `NAME_rgb.npy`, `NAME_flow.npy`, …, as OadTR and video_features write them |
| oadtr | pickles {NAME: {"rgb": …, "flow": …, "audio": …}}, converted once into memory-mapped files |

Parts are joined in the order rgb, flow, audio, then by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.rows.pickle_cache import PickleFile, cached_arrays
from pipelines.errors import InputError, UsageError
from pipelines.features.files.feature_files import FORMAT, read_manifest
from pipelines.features.files.layout import modality
from pipelines.features.files.npy_reader import read_npy
from pipelines.features.spec import FeatureSpec
from pipelines.wording import listed

PARTS = ("rgb", "flow", "audio")
PICKLE_SUFFIXES = frozenset({".pickle", ".pkl"})
NOT_FEATURES = frozenset({"fps", "timestamps_ms", "times"})  # files that stand beside features

BESIDE_FEATURES = frozenset({"target_perframe", "times"})  # folders that stand beside those of features
SUBSET = re.compile(r"(?:^|_)(?:train|val|valid|validation|test)(?=_|$)")
OADTR_HOP = 0.2  # seconds: one row for every 6 frames at 30 frames per second
LSTR_HOP = 0.25  # seconds: one row for every 6 frames at 24 frames per second


@dataclass(frozen=True)
class FeatureSet:
    """Feature files by item name."""

    layout: str
    files: dict[str, tuple[Path, ...]]
    hop: float | None = None  # seconds between rows, where the files or their layout say so
    spec: FeatureSpec | None = None  # what the rows are, where cotrans wrote them


def attach_features(
    dataset: Dataset,
    folder: Path | None,
    *,
    parts: Sequence[str] | None = None,
    feature_set: str | None = None,
    hop: float | None = None,
) -> Dataset:
    """The dataset with the feature files in `folder`; items without are left out and reported."""
    if folder is None:
        return dataset
    features = find_features(folder, [item.name for item in dataset.items], parts=parts, feature_set=feature_set)
    if not features.files:
        example = next((item.name for item in dataset.items), "NAME")
        raise InputError(
            f"dataset {dataset.name}: no features in {folder}: expected {example}.npy, {example}_rgb.npy, "
            f"rgb_…/{example}.npy or a pickle of videos"
        )
    missing = [item.name for item in dataset.items if item.name not in features.files]
    problems = [f"{len(missing)} items have no features in {folder}: {listed(missing)}"] if missing else []
    items = (replace(item, features=features.files[item.name]) for item in dataset.items if item.name in features.files)
    return replace(dataset.with_items(items, *problems, hop=hop or features.hop), spec=features.spec)


def find_features(
    folder: Path, names: Iterable[str], *, parts: Sequence[str] | None = None, feature_set: str | None = None
) -> FeatureSet:
    """The feature files for those of `names` that have some.

    `parts` picks and orders parts (default: all that are there). `feature_set` picks among several sets in
    one folder: a piece of the name of the pickles or sub-folders, such as "kin" or "anet".
    """
    if not folder.is_dir():
        raise InputError(
            f"the feature folder {folder} does not exist: correct --feature-dir, or make it with `cotrans extract`"
        )
    wanted = list(dict.fromkeys(names))
    for look in (_part_folders, _plain_files, _part_files, _pickles):
        features = look(folder, wanted, parts, feature_set)
        if features.files:
            return features
    return FeatureSet("none", {})


def _part_folders(folder: Path, names: list[str], parts: Sequence[str] | None, feature_set: str | None) -> FeatureSet:
    folders: dict[str, Path] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        part = path.name.partition("_")[0]
        if part not in PARTS or (feature_set is not None and part != "audio" and feature_set not in path.name):
            continue
        if part in folders:
            raise UsageError(
                f"{folder}: several folders of {part} features ({folders[part].name}, {path.name}): choose with "
                "--feature-set and a piece of the name"
            )
        folders[part] = path
    if not folders:
        return FeatureSet("lstr", {})
    spec = common_spec([folder / "manifests" / f"{name}.json" for name in names])
    written = [modality(part) for part in spec.parts] if spec is not None else None
    chosen = _ordered(folders, parts or written, folder)
    files: dict[str, tuple[Path, ...]] = {}
    for name in names:
        paths = tuple(folders[part] / f"{name}.npy" for part in chosen)
        if all(path.is_file() for path in paths):
            files[name] = paths
    return FeatureSet("lstr", files, spec.hop if spec else LSTR_HOP, spec if chosen == written else None)


def _plain_files(folder: Path, names: list[str], parts: Sequence[str] | None, feature_set: str | None) -> FeatureSet:
    if parts is not None or feature_set is not None:
        return FeatureSet("npy", {})
    files: dict[str, tuple[Path, ...]] = {}
    by_stem: dict[str, list[Path]] = {}
    for path in sorted(path for path in folder.rglob("*.npy") if is_feature_file(path)):
        by_stem.setdefault(path.stem, []).append(path)
    for name in names:
        # Items in sub-folders ("dog/1-30226-A-0") may have their features in the same sub-folder or in one place.
        candidates = by_stem.get(Path(name).name, [])
        exact = [path for path in candidates if _under(folder, path, name)]
        if len(exact or candidates) > 1:
            named = listed([path.relative_to(folder).as_posix() for path in exact or candidates])
            raise InputError(f"{folder}: several feature files for {name}: {named}; leave one of them in the folder")
        if exact or candidates:
            files[name] = ((exact or candidates)[0],)
    if len(set(files.values())) < len(files):
        raise InputError(f"{folder}: one feature file for several items; keep the sub-folders of the media")
    spec = common_spec([path.with_suffix(".json") for (path,) in files.values()])
    return FeatureSet("npy", files, spec.hop if spec else None, spec)


def is_feature_file(path: Path) -> bool:
    """A .npy file that holds rows, not the times beside them."""
    if path.suffix != ".npy" or path.name.startswith(".") or path.stem.endswith(".times"):
        return False
    return path.parent.name not in BESIDE_FEATURES


def _under(folder: Path, path: Path, name: str) -> bool:
    """Whether the path within the folder ends with the whole name."""
    relative = path.relative_to(folder).with_suffix("").as_posix()
    return relative == name or relative.endswith(f"/{name}")


def _part_files(folder: Path, names: list[str], parts: Sequence[str] | None, feature_set: str | None) -> FeatureSet:
    if feature_set is not None:
        return FeatureSet("parts", {})
    beside: dict[str, dict[str, Path]] = {}
    for path in filter(is_feature_file, folder.glob("*_*.npy")):
        for cut in (index for index, letter in enumerate(path.stem) if letter == "_"):
            beside.setdefault(path.stem[:cut], {})[path.stem[cut + 1 :]] = path
    files: dict[str, tuple[Path, ...]] = {}
    hop: float | None = None
    for name in names:
        there = beside.get(name, {})
        features = {part: path for part, path in there.items() if part not in NOT_FEATURES}
        if features:
            files[name] = tuple(features[part] for part in _ordered(features, parts, folder))
            hop = hop or _hop_from_times(there.get("timestamps_ms"))
    spec = common_spec([folder / f"{name}.json" for name in files])
    single = spec is not None and len(spec.parts) == 1
    return FeatureSet("parts", files, spec.hop if spec else hop, spec if single else None)


def common_spec(manifests: Iterable[Path]) -> FeatureSpec | None:
    """The specification in the manifests that are there; different ones cannot be trained on together."""
    first: tuple[Path, FeatureSpec] | None = None
    for path in manifests:
        if not path.is_file() or FORMAT not in path.read_text(encoding="utf-8", errors="replace"):
            continue  # other projects keep JSON files of their own beside features
        spec = read_manifest(path).spec
        if first is not None and spec != first[1]:
            raise InputError(
                f"{path} and {first[0]} say that their features were made in different ways: extract them again, all "
                "together"
            )
        first = first or (path, spec)
    return first[1] if first else None


def _pickles(folder: Path, names: list[str], parts: Sequence[str] | None, feature_set: str | None) -> FeatureSet:
    wanted = set(names)
    arrays: dict[str, dict[str, Path]] = {}
    origin: dict[str, Path] = {}
    for path in _chosen_pickles(folder, feature_set):
        for name, content in cached_arrays(PickleFile(path)).items():
            if name not in wanted:
                continue
            if name in origin:
                raise UsageError(
                    f"{folder}: features of {name} are in {origin[name].name} and in {path.name}: choose with "
                    "--feature-set and a piece of the file name"
                )
            origin[name] = path
            arrays[name] = content
    files = {
        name: tuple(content[part] for part in _ordered(content, parts, origin[name]))
        for name, content in arrays.items()
    }
    return FeatureSet("oadtr", files, OADTR_HOP)


def _chosen_pickles(folder: Path, feature_set: str | None) -> list[Path]:
    """The pickles of one feature set; its files differ in the name of the subset alone.

    The choice is made by name, because converting gigabytes only to say that there are two sets would be unkind.
    """
    sets: dict[str, list[Path]] = {}
    for path in sorted(path for path in folder.iterdir() if path.suffix in PICKLE_SUFFIXES):
        if "anno" not in path.name:
            sets.setdefault(SUBSET.sub("", path.stem), []).append(path)
    if feature_set is not None:
        alike = {stem: paths for stem, paths in sets.items() if feature_set in stem}
        # "kin" means thumos_kin, not thumos_kin_plus_audio, where both are there.
        sets = {stem: paths for stem, paths in alike.items() if stem.endswith(feature_set)} or alike
    if len(sets) > 1:
        raise UsageError(
            f"{folder}: several feature sets ({listed(list(sets))}): choose with --feature-set and a piece of the name"
        )
    return [path for paths in sets.values() for path in paths]


def _ordered(there: Iterable[str], parts: Sequence[str] | None, where: Path) -> list[str]:
    """The parts to join, in order; asking for one that is not there is an error."""
    available = set(there)
    if parts is None:
        return [part for part in PARTS if part in available] + sorted(available - set(PARTS))
    for part in parts:
        if part not in available:
            raise InputError(f"{where}: no '{part}' features; there are: {', '.join(sorted(available))}")
    return list(parts)


def _hop_from_times(path: Path | None) -> float | None:
    if path is None:
        return None
    times = read_npy(path)
    if times.ndim != 1 or times.dtype.kind not in "fiu":
        raise InputError(f"{path}: times must be numbers of shape (rows,), not {times.dtype} of shape {times.shape}")
    return float(np.median(np.diff(times))) / 1000 if len(times) > 1 else None
