"""What is to be scored, as a user says it: dataset, part, splits and features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.datasets.dataset import ALL, SPLITS
from pipelines.errors import UsageError
from pipelines.features.stream_factory import parse_options
from pipelines.training.recipe import FeatureOptions


@dataclass(frozen=True)
class DataRequest:
    """What the user does not say is None or absent, and follows from the model."""

    dataset: str
    root: Path | None = None
    part: str | None = None  # a split, or all; None: test, or validation where there is no test
    options: Mapping[str, Any] = field(default_factory=dict)  # the dataset's own: split, fold, …
    # Extractors, or the folder of features; neither: the model's own.
    features: FeatureOptions = field(default_factory=FeatureOptions)

    def __post_init__(self) -> None:
        if self.part is not None and self.part not in (*SPLITS, ALL):
            raise UsageError(f"there is no part '{self.part}': choose from {', '.join(SPLITS)}, {ALL}")
        if self.features.names is not None and self.features.directory is not None:
            raise UsageError(
                "--features extracts from media and --feature-dir takes files that exist: give one of them"
            )
        if self.features.options and self.features.names is None:
            raise UsageError("--feature-option is for the extractors of --features: name them")


def parse_request(
    dataset: str,
    root: Path | None,
    part: str | None,
    options: Mapping[str, Any],
    features: Mapping[str, Any],
    feature_options: Sequence[str],
    weights: Sequence[str],
) -> DataRequest:
    """A request from what stands on a command line; values that are None are not given.

    feature_options: "KEY=VALUE"; weights: "NAME=FILE". `split` may name the part instead of the way in which the
    dataset is divided: no dataset has a division of that name.
    """
    given = dict(options)
    features = {**features, "directory": given.pop("feature_dir", None), "hop": given.pop("hop", None)}
    if given.get("split") in (*SPLITS, ALL):
        named = given.pop("split")
        if part not in (None, named):
            raise UsageError(f"--split {named} and --on {part} contradict each other: give one of them")
        part = named
    files: dict[str, str] = {}
    for text in weights:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise UsageError(f"--weights takes NAME=FILE, such as vggish=vggish.pth, not '{text}'")
        files[name] = file
    chosen = FeatureOptions(
        **{key: value for key, value in features.items() if value is not None},
        options=dict(parse_options(list(feature_options))),
        weights=files,
    )
    return DataRequest(dataset, root, part, given, chosen)
