"""The data that a run was trained on: what its folder is scored on unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.datasets.opening import MODULES
from pipelines.errors import InputError, UsageError
from pipelines.evaluation.data.contenders import named_contenders
from pipelines.training.artifacts import RunFolder
from pipelines.wording import alternatives


@dataclass(frozen=True)
class DataOfRun:
    """A dataset, as its options on a command line would name it."""

    dataset: str
    root: Path | None
    options: Mapping[str, Any]

    def __str__(self) -> str:
        options = {"dataset": self.dataset, "root": self.root, **self.options}
        return " ".join(f"--{key.replace('_', '-')} {value}" for key, value in options.items() if value is not None)


def data_of_run(models: Sequence[str], root: Path | None = None) -> DataOfRun:
    """The data of the one folder of a run that is named; models: as on a command line, "PATH" or "NAME=PATH".

    root: where they are now, if that is not where the run found them.
    """
    named_contenders(models)  # what is not there is told as such
    runs = [RunFolder(Path(text if Path(text).exists() else text.rpartition("=")[2])) for text in models]
    if len(runs) != 1 or not runs[0].config.is_file():
        raise UsageError(
            f"which dataset? --dataset names one: {alternatives([*MODULES])}; the folder of a run knows its own"
        )
    source = runs[0].recipe().source
    root = root or source.root
    if root is not None and not root.exists():
        raise InputError(
            f"{runs[0].path} was trained on {root}, which is not here: say with --root where it is (runs remember the "
            "name that they were given)"
        )
    features = {"feature_dir": source.features.directory, "hop": source.features.file_hop}
    own = {key: value for key, value in features.items() if value is not None}
    return DataOfRun(source.dataset, root, {**source.options, **own})
