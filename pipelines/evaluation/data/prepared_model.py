"""A model of a comparison and the recordings that it runs on: loaded, with its features found or extracted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from pipelines.checkpoints.builtin import builtin_recordings
from pipelines.checkpoints.checkpoint import Checkpoint, default_class_names
from pipelines.datasets.dataset import Dataset
from pipelines.datasets.rows.feature_cache import OnItem
from pipelines.errors import CotransError
from pipelines.evaluation.data.contenders import load_contender
from pipelines.evaluation.data.scored_data import ScoredData
from pipelines.evaluation.data.training_overlap import called, recordings_seen, seen_in_training
from pipelines.evaluation.model_evaluation import check_class_names
from pipelines.running.runner import Damage


@dataclass(frozen=True)
class PreparedModel:
    """A model of a comparison and the recordings that it runs on."""

    path: Path
    checkpoint: Checkpoint
    dataset: Dataset
    left_out: tuple[Damage, ...]
    notes: tuple[str, ...]


def prepare_model(path: Path, data: ScoredData, device: torch.device, on_item: OnItem | None = None) -> PreparedModel:
    """Load a model and find, or extract, its features."""
    checkpoint, names_note = _named(load_contender(path), path, data.dataset)
    try:  # before anything is extracted for it
        check_class_names(checkpoint.class_names, with_classes(data.dataset, checkpoint))
    except CotransError as error:
        raise error.located(called(path)) from error
    part = data.for_model(checkpoint, path, on_item=on_item)
    checkpoint.model.to(device)
    seen = _seen(path, data)
    notes = (*part.notes, *names_note, *([seen] if seen else []))
    dataset = with_classes(_with_hop(part.dataset, checkpoint), checkpoint)
    return PreparedModel(path, checkpoint, dataset, part.left_out, notes)


def _named(checkpoint: Checkpoint, path: Path, dataset: Dataset) -> tuple[Checkpoint, tuple[str, ...]]:
    """A model that does not name its classes takes the dataset's names, in their order."""
    classes = len(checkpoint.class_names)
    unnamed = checkpoint.class_names == default_class_names(classes)
    if not unnamed or classes != len(dataset.class_names) or dataset.class_names == checkpoint.class_names:
        return checkpoint, ()
    note = f"{path} does not name its classes: they are taken to be those of {dataset.name}, in the same order"
    return replace(checkpoint, class_names=dataset.class_names), (note,)


def with_classes(dataset: Dataset, checkpoint: Checkpoint) -> Dataset:
    """A folder that holds some of the model's classes, or all in another order, is scored in the model's order."""
    if dataset.name != "folder" or not set(dataset.class_names) <= set(checkpoint.class_names):
        return dataset
    return dataset.with_classes(checkpoint.class_names)


def _with_hop(dataset: Dataset, checkpoint: Checkpoint) -> Dataset:
    """Feature files of others do not say their rate; the model's own specification may."""
    if dataset.hop is not None or checkpoint.features is None:
        return dataset
    return replace(dataset, hop=checkpoint.features.hop)


def _seen(path: Path, data: ScoredData) -> str | None:
    """A remark where a model may have seen what it is scored on."""
    if builtin_recordings(path):
        return recordings_seen(path, data.dataset, data.part)
    if data.other_data:
        return None  # said already, and it cannot be both
    return seen_in_training(path, data.dataset.name, data.dataset.root, data.part, data.options)
