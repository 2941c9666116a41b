"""What is to be scored, as a user says it: the data, and the part of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.datasets.dataset import ALL, SPLITS
from pipelines.datasets.source import DataSource, FeatureOptions
from pipelines.errors import UsageError
from pipelines.features.request import parse_options, parse_weights


@dataclass(frozen=True)
class DataRequest:
    """What the user does not say is None or absent, and follows from the model."""

    source: DataSource  # its features: extractors, or the folder of features; neither: the model's own
    part: str | None = None  # a split, or all; None: test, or validation where there is no test
    weights: Mapping[str, str] = field(default_factory=dict)  # file by extractor, where the model says which to run

    def __post_init__(self) -> None:
        if self.part is not None and self.part not in (*SPLITS, ALL):
            raise UsageError(f"there is no part '{self.part}': choose from {', '.join(SPLITS)}, {ALL}")


def parse_request(
    dataset: str,
    root: Path | None,
    part: str | None,
    options: Mapping[str, Any],
    features: str | None,
    feature_options: Sequence[str],
    weights: Sequence[str],
    cache: Path | None,
) -> DataRequest:
    """A request from what stands on a command line.

    options: those of datasets, `feature_dir` and `hop` among them; feature_options: "KEY=VALUE"; weights: "NAME=FILE".
    `split` may name the part instead of the way in which the dataset is divided: no dataset has such a division.
    """
    given = dict(options)
    if given.get("split") in (*SPLITS, ALL):
        named = given.pop("split")
        if part not in (None, named):
            raise UsageError(f"--split {named} and --on {part} contradict each other: give one of them")
        part = named
    files = parse_weights(weights)
    values = {
        "names": features,
        "hop": given.pop("hop", None),
        "options": parse_options(feature_options, "--feature-option"),
        "weights": {} if features is None else files,
        "directory": given.pop("feature_dir", None),
        "cache": None if cache is None else str(cache),
    }
    source = DataSource(dataset, root, given, FeatureOptions.from_values(values))
    return DataRequest(source, part, {} if features is not None else files)
