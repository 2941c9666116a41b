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
from pipelines.datasets.published.digit_streams import NOBODY
from pipelines.datasets.rows.feature_cache import OnItem, cached_features
from pipelines.datasets.source import DataSource, FeatureOptions, open_source
from pipelines.errors import ConfigurationError, InputError, UsageError
from pipelines.evaluation.data.contenders import training_record
from pipelines.evaluation.data.data_request import DataRequest
from pipelines.evaluation.data.training_overlap import (
    applicable_options,
    is_same_folder,
    recorded_options,
)
from pipelines.features.extraction.engines import Engine
from pipelines.features.feature_match import check_features
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.running.runner import Damage
from pipelines.shard import WHOLE, Shard
from pipelines.training.artifacts import RunFolder


@dataclass(frozen=True)
class PartWithFeatures:
    """Recordings that a model can run on."""

    dataset: Dataset  # the items of the parts asked for, with feature files
    left_out: tuple[Damage, ...] = ()  # items without usable features
    notes: tuple[str, ...] = ()


class ScoredData:
    """An open dataset and the part of it that is scored."""

    def __init__(
        self,
        request: DataRequest,
        model: Path | None = None,
        shard: Shard = WHOLE,
        engine: Engine | None = None,
    ) -> None:
        """model: a checkpoint; what the request leaves open is taken from its training.

        shard: extracted first. engine: who extracts, if not this machine.
        """
        self._shard, self._engine = shard, engine
        same = None if model is None else is_same_folder(model, request.source.root)
        given = request.source
        self._source = _completed(given, {} if model is None else training_record(model), same)
        self._weights = request.weights
        self.notes: tuple[str, ...] = ()
        self.other_data = False  # certainly not what the model was trained on
        part = request.part
        try:
            dataset = _opened(self._source)
        except UsageError as error:
            inherited = dividing_options(self._source.options).keys() - dividing_options(given.options).keys()
            if given.dataset != "folder" or not inherited or same:
                raise
            # The division of the training folder does not apply here: this is another folder, all of it unseen.
            without = {key: value for key, value in self._source.options.items() if key not in inherited}
            self._source = replace(self._source, options=without)
            dataset = _opened(self._source)
            part = part or ALL
            self.other_data = True
            self.notes = (
                f"{given.root} cannot be divided as the model's training data were ({error}): taken to be other "
                f"data, scored: {part}",
            )
        if dataset.hop is None and given.features.file_hop is not None:
            dataset = replace(dataset, hop=given.features.file_hop)
        self.dataset = dataset
        self.part = part or _default_part(dataset)
        self.items = len(dataset.split(self.part))  # an empty one is an error
        self._found: dict[str, PartWithFeatures] = {}

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that the dataset was opened with."""
        return self._source.options

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
        features = self._source.features
        if features.request is None and all(item.features for item in items):
            if self._weights:
                raise UsageError("--weights: the features exist already and none are extracted: leave it out")
            notes = _differing(self.dataset.spec, checkpoint.features, path)
            return PartWithFeatures(replace(self.dataset, items=items), notes=notes)
        if features.request is None:
            without = next(item for item in items if not item.features)
            features = _own_features(checkpoint, path, features, self._weights, without)
        key = repr((parts, features))
        if key not in self._found:
            self._found[key] = self._extracted(items, features, on_item)
        extracted = self._found[key]
        return replace(
            extracted, notes=(*extracted.notes, *_differing(extracted.dataset.spec, checkpoint.features, path))
        )

    def _extracted(self, items: tuple[Item, ...], features: FeatureOptions, on_item: OnItem | None) -> PartWithFeatures:
        if not any(item.media for item in items):
            raise InputError(
                f"dataset {self.dataset.name}: there is no media in {self.dataset.root} to extract features from; give "
                "--feature-dir"
            )
        extracted = cached_features(items, features, on_item, self._shard.of(range(len(items))), engine=self._engine)
        usable = {item.name for item in extracted.items}
        left_out = tuple(
            Damage(item.name, extracted.problems.get(item.name, "its features could not be extracted"))
            for item in items
            if item.name not in usable
        )
        return PartWithFeatures(
            replace(self.dataset, items=extracted.items, spec=extracted.spec, hop=extracted.spec.hop),
            left_out,
            tuple(problem for name, problem in extracted.problems.items() if name in usable),
        )


def _default_part(dataset: Dataset) -> str:
    """Test, or validation where there is no test. A folder that is not divided is scored whole.

    That is how a model that kept nothing out, as the built-in ones, finds a folder of somebody's own.
    """
    otherwise = ALL if dataset.name == "folder" else "test"
    return next((part for part in ("test", "validation") if part in dataset.splits), otherwise)


def _opened(source: DataSource) -> Dataset:
    features = source.features
    if "hop" not in dataset_options(source.dataset):
        # A rate that a dataset has no use for still says how fast is real time.
        features = replace(features, file_hop=None)
    return open_source(replace(source, features=features))


def _completed(source: DataSource, record: Mapping[str, Any], same: bool | None) -> DataSource:
    """The source with what it leaves open as it was in training.

    Once the user says anything about the division, nothing of it is taken over: half of each would be neither. Nor is
    that of a model that was trained on everybody: there would be nothing to score it on.
    """
    recorded = recorded_options(record, source.dataset)
    if source.dataset == "folder":
        recorded = applicable_options(recorded, source.root, same)
    if dividing_options(source.options) or recorded.get("fold") == NOBODY:
        recorded = {key: value for key, value in recorded.items() if key not in dividing_options(recorded)}
    features = source.features
    trained_on = record.get("features", {})
    # Feature files of a published dataset rarely say their rate; whoever trained on them may have said it.
    same_files = source.dataset != "folder" and record.get("data", {}).get("dataset") == source.dataset
    same_files = same_files and features.request is None and "names" not in trained_on
    if features.file_hop is None and (same_files or (features.directory is not None and recorded)):
        features = replace(features, file_hop=trained_on.get("hop"))
    cache = trained_on.get("cache")
    if features.cache is None and cache and Path(str(cache)).is_dir():
        features = replace(features, cache=str(cache))  # what training extracted is not extracted again
    return replace(source, options={**recorded, **source.options}, features=features)


def _own_features(
    checkpoint: Checkpoint, path: Path, given: FeatureOptions, weights: Mapping[str, str], item: Item
) -> FeatureOptions:
    """The extractors that a model was trained with, from its specification."""
    spec = checkpoint.features
    if spec is None:
        raise UsageError(
            f"there are no features of {item.name}, and {path} does not say which it takes: name extractors with "
            "--features (musicnn, logmel, vggish, …), or give a folder of feature files with --feature-dir"
        )
    if given.file_hop not in (None, spec.hop):
        raise ConfigurationError(
            f"--hop {given.file_hop:g}: {path} was trained on features with a hop of {spec.hop:g}; leave --hop out"
        )
    beside = RunFolder(path.parent).extractor  # of the paper's stage 1
    beside_model = {spec.name: str(beside)} if beside.is_file() else {}
    request = StreamFactory.for_spec(spec, {**beside_model, **weights}).request
    if request.random_weights:
        raise UsageError(f"{path} takes features of random weights, which cannot be made again: give --feature-dir")
    return replace(given, request=request, file_hop=None)


def _differing(given: FeatureSpec | None, wanted: FeatureSpec | None, path: Path) -> tuple[str, ...]:
    """Features of the right width that were made in another way give wrong scores without any other sign."""
    remark = check_features(given, wanted, str(path), "leave --feature-dir and --features out to have its own made")
    return () if remark is None else (remark,)
