"""What a model may have seen in training of the data that it is scored on.

A checkpoint says which dataset it was trained on and how that was divided; the folder of a run also says where the
data stood. Of built-in models the recordings are known by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.checkpoints.builtin import builtin_recordings, models_folder
from pipelines.datasets.dataset import ALL, Dataset
from pipelines.datasets.options import dividing_options
from pipelines.datasets.own.folder import TABLES
from pipelines.errors import CotransError
from pipelines.evaluation.data.contenders import BUILT_IN, training_record
from pipelines.training.artifacts import RunFolder


def recorded_options(record: Mapping[str, Any], dataset: str) -> dict[str, Any]:
    """The dataset's options that a model was trained with; empty where it was another dataset."""
    data = record.get("data", {})
    return dict(data.get("options", {})) if data.get("dataset") == dataset else {}


def applicable_options(recorded: Mapping[str, Any], root: Path | None, same: bool | None) -> dict[str, Any]:
    """Those of the recorded options of a `folder` that may be taken over for the folder `root`.

    Not `classes`: labels are put into the model's order by their names, and a folder may lack some of them. A table of
    events, and that events overlap, only where there is such a table. same: as `is_same_folder` says.
    """
    options = {key: value for key, value in recorded.items() if key != "classes"}
    if same or root is None:
        return options
    table = options.pop("annotations", None)
    if table is not None and same is None and (root / str(table)).is_file():
        options["annotations"] = str(root / str(table))
    if "annotations" not in options and not any((root / name).is_file() for name in TABLES):
        options.pop("multi_label", None)
    return options


def is_same_folder(path: Path, root: Path | None) -> bool | None:
    """Whether a model was trained on the data in `root`; None: the checkpoint stands alone, or data were moved."""
    folder = RunFolder(path.parent)
    if root is None or not folder.config.is_file():
        return None
    try:
        trained_on = folder.recipe().data.root
    except CotransError:
        return None  # a recipe that cannot be read says nothing; it is of no use here otherwise
    if trained_on is None or not Path(trained_on).expanduser().is_dir():
        return None
    return Path(trained_on).expanduser().resolve() == root.expanduser().resolve()


def seen_in_training(path: Path, dataset: str, root: Path, part: str, options: Mapping[str, Any]) -> str | None:
    """A remark where a model is scored on what it was trained on, or may be.

    options: those that the dataset was opened with; root: its folder.
    """
    record = training_record(path)
    if record.get("data", {}).get("dataset") != dataset:
        return None
    same = is_same_folder(path, root)
    if dataset == "folder" and same is False:
        return None  # other data of the same kind
    if part in (*str(record["data"].get("train_on", "train")).split("+"), ALL):
        unsure = f", if {root} holds what it was trained on" if dataset == "folder" and not same else ""
        return (
            f"{called(path)} is scored on {part}, which has the recordings that it was trained on{unsure}: the score "
            "says little about new ones"
        )
    trained, scored = (dividing_options(values) for values in (recorded_options(record, dataset), options))
    if trained == scored or _kept_out(trained, scored, part):
        return None
    if trained.get("fold") == "none":
        return (
            f"{called(path)} was trained on everybody that it was given (--fold none): where these recordings were "
            "among them, the score says little about new ones"
        )
    return (
        f"{called(path)} was trained with {_said(trained)}, and is scored with {_said(scored)}: it may have seen what "
        "it is scored on"
    )


def recordings_seen(path: Path, dataset: Dataset, part: str) -> str | None:
    """A remark where a built-in model is scored on recordings that it was trained on, whatever folder they are in."""
    trained_on = builtin_recordings(path)
    scored = {name for item in dataset.split(part) for name in item.recordings}
    # A bare number may be anybody's, unless the dataset is known.
    own = BUILT_IN.get(dataset.name) == path.stem
    seen = {name for name in scored & trained_on if own or not name.isdigit()}
    if not seen:
        return None
    if len(scored) == 1:
        which = "the recording"
    elif seen == scored:
        which = f"all {len(scored):,} recordings"
    else:
        which = f"{len(seen):,} of the {len(scored):,} recordings"
    return f"{called(path)} was trained on {which} that it is scored on: the score says little about new ones"


def called(path: Path) -> str:
    """A model that is built in by its name: where it lies is nothing that anybody chose."""
    return path.stem if path.parent == models_folder() else str(path)


def _kept_out(trained: Mapping[str, Any], scored: Mapping[str, Any], part: str) -> bool:
    """Whether what is scored is a group (a speaker, a fold) that training kept out by name."""
    group = scored.get("fold" if part == "validation" else "test_fold")
    return group is not None and group in (trained.get("fold"), trained.get("test_fold"))


def _said(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in options.items()) or "the default splits"
