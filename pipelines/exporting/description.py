"""What an exported step says about itself: everything beside the graph that turns its scores into answers.

It stands in the file as plain text values (`metadata_props` of ONNX), so that a consumer in any language can read it.
Nothing here needs PyTorch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import CheckpointError, CotransError
from pipelines.features.spec import FeatureSpec
from pipelines.metrics.class_order import ClassOrder
from pipelines.metrics.probabilities import SCORE_KINDS, ScoreKind, least_of, smoothing_of
from pipelines.metrics.rejection import Rejection
from pipelines.model.precision import PRECISIONS, Precision
from pipelines.untrusted.parsing import choice_of, json_value
from pipelines.wording import one_line

FORMAT = "cotrans-step"
VERSION = 1
LARGEST_SIZE = 1 << 24  # of everything that is counted in a description

TOKEN, SAMPLES, SCORES, POSITION, ANTICIPATION = "token", "samples", "scores", "position", "anticipation"
NEW = "new_"  # in front of a state's name: what it is after the step


@dataclass(frozen=True)
class StepDescription:
    """An exported model, without its graph."""

    name: str
    class_names: tuple[str, ...]
    features: FeatureSpec | None  # what a row is made of; None: the model does not say
    score_kind: ScoreKind
    rejection: Rejection | None  # when the answer is "none of these"
    smoothing: float  # seconds over which a stream averages probabilities
    input_width: int  # numbers of a row
    window: int  # rows after which an output has seen as much as it ever will
    lag: int  # an output is about the row so many steps ago
    receptive_field: int | None  # rows that an output depends on; None: all
    precision: Precision
    config: str  # JSON: the configuration of the model that was exported
    sample_rate: int | None = None  # of the sound that a step takes in place of a row; None: it takes rows
    samples: int | None = None  # of one step
    order: ClassOrder | None = None  # how the classes follow each other; None: any may follow any
    least: float = 0.0  # seconds: shorter stretches of a stream are left out
    difference: float = math.nan  # the largest relative difference from PyTorch when it was exported

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def warm_up(self) -> int:
        return self.window

    def check_sizes(self) -> None:
        """Refuse, with ValueError, sizes that no model has: what reads them allocates by them."""
        sizes = {"input_width": self.input_width, "window": self.window, "lag": self.lag + 1}
        sizes |= {"classes": self.classes, "receptive_field": self.receptive_field or 1}
        sizes |= {"sample_rate": self.sample_rate or 1, "samples": self.samples or 1}
        for name, size in sizes.items():
            if not 0 < size <= LARGEST_SIZE:
                raise ValueError(f"{name} is out of range")
        if (self.sample_rate is None) != (self.samples is None) or 0 in (self.sample_rate, self.samples):
            raise ValueError("its sound is described by halves")

    def to_metadata(self) -> dict[str, str]:
        """Text values by name."""
        return {
            "format": FORMAT,
            "version": str(VERSION),
            "name": self.name,
            "class_names": json.dumps(self.class_names, ensure_ascii=False),
            "features": json.dumps(None if self.features is None else self.features.to_dict(), ensure_ascii=False),
            "hop": json.dumps(None if self.features is None else self.features.hop),
            "score_kind": self.score_kind,
            "rejection": json.dumps(None if self.rejection is None else self.rejection.to_dict()),
            "smoothing": json.dumps(self.smoothing),
            "order": json.dumps(None if self.order is None else self.order.to_dict()),
            "least": json.dumps(self.least),
            "input_width": str(self.input_width),
            "window": str(self.window),
            "lag": str(self.lag),
            "receptive_field": json.dumps(self.receptive_field),
            "precision": self.precision,
            "config": self.config,
            "sample_rate": json.dumps(self.sample_rate),
            "samples": json.dumps(self.samples),
            "difference": json.dumps(self.difference),
        }

    @classmethod
    def from_metadata(cls, path: Path, metadata: Mapping[str, str]) -> StepDescription:
        """The inverse of `to_metadata`, for the file at `path`."""
        if metadata.get("format") != FORMAT:
            raise CheckpointError(f"{path} is not a step that `cotrans export` wrote: export a model to get one")
        version = metadata.get("version", "")
        if version != str(VERSION):
            raise CheckpointError(
                f"{path} was exported by another cotrans (version {one_line(version)} of its format, not {VERSION}): "
                "export it again"
            )
        try:
            features, rejection = json_value(metadata["features"]), json_value(metadata["rejection"])
            following = json_value(metadata.get("order", "null"))  # files from before there was any have none
            field = json_value(metadata["receptive_field"])
            rate, samples = json_value(metadata["sample_rate"]), json_value(metadata["samples"])
            described = cls(
                name=metadata["name"],
                class_names=tuple(map(str, json_value(metadata["class_names"]))),
                features=None if features is None else FeatureSpec.from_dict(features),
                score_kind=choice_of(metadata["score_kind"], SCORE_KINDS),
                rejection=None if rejection is None else Rejection.from_dict(rejection),
                smoothing=smoothing_of(json_value(metadata["smoothing"])),
                input_width=int(metadata["input_width"]),
                window=int(metadata["window"]),
                lag=int(metadata["lag"]),
                receptive_field=None if field is None else int(field),
                precision=choice_of(metadata["precision"], PRECISIONS),
                config=metadata["config"],
                sample_rate=None if rate is None else int(rate),
                samples=None if samples is None else int(samples),
                order=None if following is None else ClassOrder.from_dict(following),
                least=least_of(json_value(metadata.get("least", "0"))),
                difference=float(json_value(metadata["difference"])),
            )
            described.check_sizes()
            return described
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError, CotransError) as error:
            raise CheckpointError(f"{path} describes itself wrongly: {one_line(str(error))}") from error
