"""Where recordings come from, as a user says it, and the one way to open them: for `train`, `evaluate` and `data`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.opening import MODULES, dataset_options, open_dataset
from pipelines.errors import UsageError
from pipelines.features.request import FeatureRequest
from pipelines.wording import alternatives


@dataclass(frozen=True)
class FeatureOptions:
    """[features] of a recipe: extractors to run on media, or the folder of features that exist."""

    request: FeatureRequest | None = None  # its keys stand in the section itself: names, hop, options, …
    directory: str | None = None
    file_hop: float | None = None  # seconds between rows of feature files; `hop` in the section, as of the request
    cache: str | None = None  # where extracted features are kept; None: the user's cache folder
    workers: int = 0  # processes that extract; 0: one for each core, up to eight, as far as there is work for them
    finetune: bool = False  # the paper's stage 1: fine-tune the extractor first

    def __post_init__(self) -> None:
        if self.request is not None and self.directory is not None:
            raise UsageError(
                "--features extracts from media and --feature-dir takes files that exist: give one of them"
            )
        if self.request is not None and self.request.every is not None:
            raise UsageError("--every gives each recording a clock of its own, and a model has one: use --hop or --fps")

    @property
    def hop(self) -> float | None:
        """Seconds between rows, where it was said."""
        return self.file_hop if self.request is None else self.request.hop or self.request.fixed_hop

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> FeatureOptions:
        """From the keys of the section."""
        own = {key: value for key, value in values.items() if key in OWN_KEYS}
        asked = {key: value for key, value in values.items() if key not in OWN_KEYS and value not in (None, {})}
        if "names" in asked:
            return cls(request=FeatureRequest.from_dict(asked), **own)
        hop = asked.pop("hop", None)
        if asked:
            raise UsageError("options and weights of extractors are given, but no extractor: name it with --features")
        return cls(file_hop=hop, **own)

    def to_values(self) -> dict[str, Any]:
        """The inverse of `from_values`."""
        asked = {"hop": self.file_hop} if self.request is None else self.request.to_dict()
        return {**asked, **{key: getattr(self, key) for key in OWN_KEYS}}


OWN_KEYS = tuple(key.name for key in fields(FeatureOptions) if key.name not in ("request", "file_hop"))


@dataclass(frozen=True)
class DataSource:
    """A dataset by name, its folder, its own options, and its features."""

    dataset: str
    root: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # the dataset's own: split, fold, …
    features: FeatureOptions = field(default_factory=FeatureOptions)


def open_source(source: DataSource) -> Dataset:
    """The dataset as it is on disk: features that exist are attached, none are extracted."""
    if not source.dataset:
        raise UsageError(
            "which recordings? Name their folder, as in `cotrans train clips/`, or a dataset with --dataset: "
            f"{alternatives([*MODULES])}"
        )
    options: dict[str, Any] = dict(source.options)
    features = source.features
    if features.directory is not None:
        options["feature_dir"] = Path(features.directory)
    if features.file_hop is not None:
        if "hop" not in dataset_options(source.dataset):
            raise UsageError(
                f"--hop: feature files of {source.dataset} need none; it is for --features, which extracts"
            )
        options["hop"] = features.file_hop
    return open_dataset(source.dataset, source.root, **options)
