"""THUMOS14 for online action detection: 200 videos to train on, 213 to test on, 20 actions.

Class 0 is background and class 21 marks ambiguous frames, which are left out of loss and score.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.own.splits import carve_validation
from pipelines.datasets.published.annotated import attach_streams
from pipelines.datasets.published.shipped import shipped_list
from pipelines.datasets.rows.feature_files import LSTR_HOP, OADTR_HOP
from pipelines.datasets.rows.pickle_cache import PickleFile, cached_arrays
from pipelines.errors import InputError
from pipelines.wording import listed

OBTAIN = (
    "It should contain annotations (thumos_val_anno.pickle and thumos_test_anno.pickle or anno_thumos.zip of "
    "OadTR, or LSTR's target_perframe/VIDEO.npy) and features (OadTR's pickles, or rgb_…/VIDEO.npy and "
    "flow_…/VIDEO.npy): the OadTR and LSTR projects say where to get both, and `cotrans data get "
    "thumos14-annotations --root DIR` fetches the annotations"
)
BACKGROUND, AMBIGUOUS = 0, 21
SUBSETS = {"train": "val", "test": "test"}  # THUMOS14 trains on its validation videos
FOLDERS = ("", "data", "annotations", "anno")


def open(
    root: Path,
    *,
    validation: float = 0.0,
    split_seed: int = 0,
    feature_dir: Path | None = None,
    feature_set: str | None = None,
    parts: Sequence[str] | None = None,
    hop: float | None = None,
) -> Dataset:
    """The videos in `root`, with features from `feature_dir` (default: `root`).

    `validation` takes that fraction of the training videos for validation (the official protocol has none).
    `feature_set` picks among several feature sets ("kin", "anet"), `parts` among "rgb", "flow", "audio".
    `hop` is the seconds between rows (default: 0.2 for OadTR's annotations, 0.25 for LSTR's).
    """
    lists = shipped_list("thumos14")
    targets, default_hop = _annotations(root)
    items = []
    problems = []
    for split in ("train", "test"):
        missing = [name for name in lists[split] if name not in targets]
        if missing:
            problems.append(f"{len(missing)} {split} videos have no annotation, left out: {listed(missing)}")
        items += [Item(name, split, targets=targets[name]) for name in lists[split] if name in targets]
    items = carve_validation(items, validation, split_seed)
    dataset = Dataset(
        "thumos14",
        "frames",
        root,
        tuple(lists["class_names"]),
        tuple(items),
        hop=hop or default_hop,
        background=BACKGROUND,
        ignored=(AMBIGUOUS,),
        multi_label=True,  # LSTR's targets count cliff diving as diving too
        problems=tuple(problems),
    )
    return attach_streams(dataset, feature_dir, feature_set=feature_set, parts=parts, hop=hop)


def _annotations(root: Path) -> tuple[dict[str, Path], float]:
    """The file of per-frame targets of every video, and the seconds between frames."""
    for folder in (root / place for place in FOLDERS):
        perframe = folder / "target_perframe"
        if perframe.is_dir():
            return {path.stem: path for path in sorted(perframe.glob("*.npy"))}, LSTR_HOP
    targets: dict[str, Path] = {}
    for subset in SUBSETS.values():
        pickle = _find_pickle(root, f"thumos_{subset}_anno.pickle")
        if pickle is not None:
            targets |= annotation_arrays(pickle)
    if not targets:
        raise InputError(f"dataset thumos14: no annotations in {root}. {OBTAIN}")
    return targets, OADTR_HOP


def annotation_arrays(pickle: PickleFile) -> dict[str, Path]:
    """The targets in an annotation pickle {video: {"anno": (T, classes), …}}."""
    arrays = cached_arrays(pickle)
    for video, parts in arrays.items():
        if "anno" not in parts:
            raise InputError(f"{pickle}: the entry {video} has no 'anno' array")
    return {video: parts["anno"] for video, parts in arrays.items()}


def _find_pickle(root: Path, name: str) -> PickleFile | None:
    for folder in (root / place for place in FOLDERS):
        if (folder / name).is_file():
            return PickleFile(folder / name)
        for archive in sorted(folder.glob("*.zip")):
            try:
                members = zipfile.ZipFile(archive).namelist()
            except (OSError, zipfile.BadZipFile) as error:
                raise InputError(f"{archive}: not a readable zip archive ({error}); download it again") from error
            for member in members:
                if Path(member).name == name:
                    return PickleFile(archive, member)
    return None
