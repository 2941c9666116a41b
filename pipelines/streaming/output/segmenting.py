"""Which way the rows of a source become segments: one choice for `--segments`, subtitles and `--report`."""

from __future__ import annotations

from typing import Any, Protocol

from pipelines.streaming.options import PredictionOptions
from pipelines.streaming.output.likeliest_segments import LikeliestSegments
from pipelines.streaming.output.segments import Segment, SegmentMerger, SegmentTally
from pipelines.streaming.predicting.label_rule import LabelRule
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.predicting.stream_model import StreamModel


class Segmenter(Protocol):
    """Makes segments of the rows of one source."""

    def push(self, prediction: Prediction, class_names: tuple[str, ...]) -> list[Segment]: ...

    def finish(self, media_end: float | None = None) -> list[Segment]: ...

    def state(self) -> Any: ...

    def restore(self, state: Any) -> None: ...


def segmenter(
    source: str,
    model: StreamModel,
    prediction: PredictionOptions,
    rule: LabelRule,
    joined: bool = False,
    named: str | None = None,
    tally: SegmentTally | None = None,
) -> Segmenter:
    """The segments of a source.

    Of one label at a time that has a least length they are the likeliest ones. Where the user has said a threshold, or
    classes follow each other in their order, every row has its label already, and rows of one label are merged.
    rule: of the model's classes, by `prediction`. joined: as in `SegmentMerger`. named: the model, where several watch.
    """
    least = prediction.least_of(model.least)
    if model.score_kind == "softmax" and least and model.order is None and not rule.has_thresholds:
        smoothed = prediction.smooth is not None
        over = model.smoothing if prediction.smooth is None else prediction.smooth
        return LikeliestSegments(source, model.rejection, rule, least, named, tally, smoothed, over)
    return SegmentMerger(source, model.score_kind, rule, joined, least, named, tally)
