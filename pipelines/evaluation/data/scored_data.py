"""The recordings that models are scored on: a part of a dataset, with the features that each model takes.

What the user does not say about splits is taken from the training of the checkpoint: a random split drawn in another
way would score a model on clips that it was trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.checkpoints.checkpoint import Checkpoint
from pipelines.datasets.dataset import ALL, Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.opening import dataset_options
from pipelines.datasets.options import dividing_options
from pipelines.errors import ConfigurationError, InputError, UsageError
from pipelines.evaluation.data.contenders import training_record
from pipelines.evaluation.data.data_request import DataRequest
from pipelines.evaluation.data.training_overlap import (
    applicable_options,
    is_same_folder,
    recorded_options,
)
from pipelines.features.feature_match import check_features
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.running.runner import Damage
from pipelines.training.artifacts import RunFolder
from pipelines.training.data import open_media
from pipelines.training.feature_cache import OnItem, cached_features
from pipelines.training.recipe import DataOptions, FeatureOptions, Recipe


@dataclass(frozen=True)
class PartWithFeatures:
    """Recordings that a model can run on."""

    dataset: Dataset  # the items of the parts asked for, with feature files
    left_out: tuple[Damage, ...] = ()  # items without usable features
    notes: tuple[str, ...] = ()


class ScoredData:
    """An open dataset and the part of it that is scored."""

    def __init__(self, request: DataRequest, model: Path | None = None) -> None:
        """model: a checkpoint; what the request leaves open is taken from its training."""
        same = None if model is None else is_same_folder(model, request.root)
        self._request = _completed(request, {} if model is None else training_record(model), same)
        self.notes: tuple[str, ...] = ()
        self.other_data = False  # certainly not what the model was trained on
        part = request.part
        try:
            dataset = _opened(self._request)
        except UsageError as error:
            inherited = dividing_options(self._request.options).keys() - dividing_options(request.options).keys()
            if request.dataset != "folder" or not inherited or same:
                raise
            # The division of the training folder does not apply here: this is another folder, all of it unseen.
            without = {key: value for key, value in self._request.options.items() if key not in inherited}
            self._request = replace(self._request, options=without)
            dataset = _opened(self._request)
            part = part or ALL
            self.other_data = True
            self.notes = (
                f"{request.root} cannot be divided as the model's training data were ({error}): taken to be other "
                f"data, scored: {part}",
            )
        if dataset.hop is None and request.features.hop is not None and request.features.names is None:
            dataset = replace(dataset, hop=request.features.hop)
        self.dataset = dataset
        self.part = part or next((part for part in ("test", "validation") if part in dataset.splits), "test")
        self.items = len(dataset.split(self.part))  # an empty one is an error
        self._found: dict[str, PartWithFeatures] = {}

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that the dataset was opened with."""
        return self._request.options

    @property
    def has_features(self) -> bool:
        """Whether the feature files exist, so that nothing has to be extracted."""
        return all(item.features for item in self.dataset.items)

    def for_model(
        self,
        checkpoint: Checkpoint,
        path: Path,
        parts: Sequence[str] | None = None,
        on_item: OnItem | None = None,
    ) -> PartWithFeatures:
        """The part with the features that a model takes; media is extracted once and kept."""
        parts = (ALL,) if parts and ALL in parts else parts or (self.part,)  # an item is there once
        items = tuple(item for part in parts for item in self.dataset.split(part))
        features = self._request.features
        if features.names is None and all(item.features for item in items):
            notes = _differing(self.dataset.spec, checkpoint.features, path)
            return PartWithFeatures(replace(self.dataset, items=items), notes=notes)
        if features.names is None:
            without = next(item for item in items if not item.features)
            features = _own_features(checkpoint, path, features, without)
        key = repr((parts, features))
        if key not in self._found:
            self._found[key] = self._extracted(items, features, on_item)
        found = self._found[key]
        return replace(found, notes=(*found.notes, *_differing(found.dataset.spec, checkpoint.features, path)))

    def _extracted(self, items: tuple[Item, ...], features: FeatureOptions, on_item: OnItem | None) -> PartWithFeatures:
        if not any(item.media for item in items):
            raise InputError(
                f"dataset {self.dataset.name}: there is no media in {self.dataset.root} to extract features from; give "
                "--feature-dir"
            )
        found = cached_features(items, features, on_item)
        usable = {item.name for item in found.items}
        left_out = tuple(
            Damage(item.name, found.problems.get(item.name, "its features could not be extracted"))
            for item in items
            if item.name not in usable
        )
        return PartWithFeatures(
            replace(self.dataset, items=found.items, spec=found.spec, hop=found.spec.hop),
            left_out,
            tuple(problem for name, problem in found.problems.items() if name in usable),
        )


def _opened(request: DataRequest) -> Dataset:
    data = DataOptions(
        dataset=request.dataset,
        root=None if request.root is None else str(request.root),
        options=dict(request.options),
    )
    return open_media(Recipe(data=data, features=_for_opening(request.dataset, request.features)))


def _completed(request: DataRequest, record: Mapping[str, Any], same: bool | None) -> DataRequest:
    """The request with what it leaves open as it was in training.

    Once the user says anything about the division, nothing of it is taken over: half of each would be neither.
    """
    recorded = recorded_options(record, request.dataset)
    if request.dataset == "folder":
        recorded = applicable_options(recorded, request.root, same)
    if dividing_options(request.options):
        recorded = {key: value for key, value in recorded.items() if key not in dividing_options(recorded)}
    features = request.features
    trained_on = record.get("features", {})
    if features.directory is not None and features.hop is None and recorded:
        features = replace(features, hop=trained_on.get("hop"))
    cache = trained_on.get("cache")
    if features.cache is None and cache and Path(str(cache)).is_dir():
        features = replace(features, cache=str(cache))  # what training extracted is not extracted again
    return replace(request, options={**recorded, **request.options}, features=features)


def _for_opening(dataset: str, features: FeatureOptions) -> FeatureOptions:
    """What finding feature files depends on. A rate that a dataset has no use for still says how fast is real time."""
    wanted = features.names is not None or "hop" in dataset_options(dataset)
    return FeatureOptions(names=features.names, directory=features.directory, hop=features.hop if wanted else None)


def _own_features(checkpoint: Checkpoint, path: Path, given: FeatureOptions, item: Item) -> FeatureOptions:
    """The extractors that a model was trained with, from its specification."""
    spec = checkpoint.features
    if spec is None:
        raise UsageError(
            f"there are no features of {item.name}, and {path} does not say which it takes: name extractors with "
            "--features (musicnn, logmel, vggish, …), or give a folder of feature files with --feature-dir"
        )
    if given.hop not in (None, spec.hop):
        raise ConfigurationError(
            f"--hop {given.hop:g}: {path} was trained on features with a hop of {spec.hop:g}; leave --hop out"
        )
    beside = RunFolder(path.parent).extractor  # of the paper's stage 1
    weights = {**({spec.name: str(beside)} if beside.is_file() else {}), **given.weights}
    factory = StreamFactory.for_spec(spec, tuple(f"{name}={file}" for name, file in weights.items()))
    chosen = factory.options
    if chosen.random_weights:
        raise UsageError(f"{path} takes features of random weights, which cannot be made again: give --feature-dir")
    return replace(
        given,
        names=chosen.features,
        hop=chosen.hop,
        align=chosen.align,
        options=dict(chosen.options),
        weights=dict(_pair(text) for text in chosen.weights),
    )


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _differing(found: FeatureSpec | None, wanted: FeatureSpec | None, path: Path) -> tuple[str, ...]:
    """Features of the right width that were made in another way give wrong scores without any other sign."""
    remark = check_features(found, wanted, str(path), "leave --feature-dir and --features out to have its own made")
    return () if remark is None else (remark,)
