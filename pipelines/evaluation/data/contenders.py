"""The models of a comparison: files, folders of runs, folders of seeds, or the one that comes with cotrans.

A contender is one row of the table. Several files are one row where they are the same model trained with several
seeds: `cotrans train --seeds 5` writes them to seed-0, seed-1, … of one folder.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.checkpoints.builtin import builtin_names, find_model
from pipelines.checkpoints.checkpoint import Checkpoint, read_header
from pipelines.checkpoints.foreign_files.source_file import file_kind
from pipelines.checkpoints.opening import open_checkpoint
from pipelines.errors import InputError, UsageError
from pipelines.training.artifacts import RunFolder

# The model that comes with cotrans for a dataset.
BUILT_IN = {"gtzan": "music-genre", "digits": "spoken-digits", "golf": "golf-swing"}
SEED_FOLDER = re.compile(r"seed-(\d+)")
# Names of files that say nothing about the model in them.
_COMMON_STEMS = ("best", "last", "model", "checkpoint")


@dataclass(frozen=True)
class Contender:
    """A row of the table: a model, or one model trained with several seeds."""

    name: str
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def find_contenders(texts: Sequence[str], dataset: str) -> tuple[Contender, ...]:
    """What `--model` names: "PATH" or "NAME=PATH"; without any, the built-in model of the dataset."""
    if not texts:
        if dataset not in BUILT_IN:
            raise UsageError(
                f"which model? --model names a file or the folder of a run, or a built-in model; only "
                f"{', '.join(BUILT_IN)} have one by default"
            )
        name = BUILT_IN[dataset]
        if name not in builtin_names():
            raise UsageError(f"the model {name} is not in this copy of cotrans: name another with --model")
        return (Contender(name, (find_model(name),)),)
    return named_contenders(texts)


def named_contenders(texts: Sequence[str]) -> tuple[Contender, ...]:
    """Those of "PATH" or "NAME=PATH" each; what is not there is an error."""
    return _with_different_names([_contender(text) for text in texts])


def load_contender(path: Path) -> Checkpoint:
    """The model in a file: ours, or anything that `cotrans convert` reads without being told more."""
    try:
        return open_checkpoint(path)
    except UsageError as error:
        raise UsageError(f"{path}: {error} to `cotrans convert {path}`, and evaluate what that writes") from error


def training_record(path: Path) -> Mapping[str, Any]:
    """The recipe that a checkpoint was trained with, by section; empty where the file does not say."""
    if file_kind(path) != "cotrans":
        return {}
    recipe = read_header(path).provenance.get("recipe", {})
    return recipe if isinstance(recipe, dict) else {}


def _contender(text: str) -> Contender:
    name, equals, rest = text.partition("=")
    if equals and name and rest and not Path(text).exists():
        return replace(_at(Path(rest)), name=name)
    return _at(Path(text))


def _at(path: Path) -> Contender:
    if not path.is_dir():
        file = find_model(path)
        built_in = path.name in builtin_names() and file != path
        return Contender(path.name if built_in else _model_name(file), (file,))
    if RunFolder(path).best.is_file():
        best = RunFolder(path).best
        return Contender(_model_name(best), (best,))
    folders = sorted(
        (int(match[1]), folder) for folder in path.iterdir() if (match := SEED_FOLDER.fullmatch(folder.name))
    )
    files = tuple(RunFolder(folder).best for _, folder in folders if RunFolder(folder).best.is_file())
    if not files:
        raise InputError(
            f"{path} is not the folder of a training run: it has neither best.safetensors nor seed-0/best.safetensors "
            f"(recordings to score are named with --dataset folder --root {path})"
        )
    unfinished = [folder.name for _, folder in folders if not RunFolder(folder).summary.is_file()]
    notes = (f"{path}: {', '.join(unfinished)} did not finish training",) if unfinished else ()
    return Contender(_model_name(files[0]), files, notes)


def _model_name(path: Path) -> str:
    """The preset that was trained, or the name of the file or of the folder of the run."""
    preset = training_record(path).get("model", {}).get("preset")
    return str(preset) if preset else _file_name(path)


def _file_name(path: Path) -> str:
    stem = path.name.split(".")[0]
    if stem not in _COMMON_STEMS:
        return stem
    folder = path.resolve().parent
    return folder.parent.name if SEED_FOLDER.fullmatch(folder.name) else folder.name


def _with_different_names(contenders: Sequence[Contender]) -> tuple[Contender, ...]:
    """Rows that would have the same name get that of their file, or else their path."""
    result = list(contenders)
    for other_name in (_file_name, str):
        count = Counter(contender.name for contender in result)
        result = [
            replace(contender, name=other_name(contender.files[0])) if count[contender.name] > 1 else contender
            for contender in result
        ]
    if len({contender.name for contender in result}) < len(result):
        raise UsageError("--checkpoint names the same model twice: give each row a name of its own with NAME=PATH")
    return tuple(result)
