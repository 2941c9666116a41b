"""Frames merged into stretches: start, end, label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.metrics.probabilities import ScoreKind
from pipelines.streaming.predicting.label_rule import LabelRule
from pipelines.streaming.predicting.prediction import Prediction

TIME_SLACK = 1e-6  # seconds: sums of hops are not exact
SIGMOID_THRESHOLD = 0.5  # from which on a class of a multi-label model is there, unless the user says otherwise


@dataclass(frozen=True)
class Segment:
    """A stretch in which nothing changed."""

    source: str
    start: float  # media seconds
    end: float
    label: str  # several labels at once: joined by ", "
    score: float  # mean probability
    frames: int
    model: str | None = None  # whose it is, where several models watch

    def to_dict(self) -> dict[str, Any]:
        values = {
            "source": self.source,
            "model": self.model,
            "start": round(self.start, 6),
            "end": round(self.end, 6),
            "label": self.label,
            "score": round(self.score, 6),
            "frames": self.frames,
        }
        return {name: value for name, value in values.items() if name != "model" or value is not None}


@dataclass
class _Track:
    """A stretch that is still growing."""

    start: float
    end: float
    total: float
    frames: int


class SegmentMerger:
    """Merges the frames of one source.

    A softmax model has one label at a time. A sigmoid model has a stretch for each class that is there (`joined`: one
    for each set of classes, so that stretches do not overlap). A gap, or a window that restarts, ends all stretches.
    """

    def __init__(
        self,
        source: str,
        score_kind: ScoreKind,
        rule: LabelRule | None = None,
        joined: bool = False,
        least: float = 0,
        model: str | None = None,
    ) -> None:
        """least: seconds; shorter stretches are left out. model: whose they are, where several models watch."""
        self._source, self._model = source, model
        self._single = score_kind == "softmax"
        self._rule = rule or LabelRule()
        self._joined = joined
        self._least = least
        self._tracks: dict[str, _Track] = {}

    def push(self, prediction: Prediction, class_names: tuple[str, ...]) -> list[Segment]:
        """The stretches that a frame ends, in order of their start."""
        # The first predictions of a model with a lag speak of what was before the stream.
        present = self._present(prediction, class_names) if prediction.end > 0 else {}
        hop = prediction.end - prediction.begin
        closed = []
        for label, track in list(self._tracks.items()):
            gap = prediction.restart or prediction.begin - track.end > 0.5 * hop
            if gap or label not in present:
                closed += self._close(label)
        for label, score in present.items():
            track = self._tracks.setdefault(label, _Track(max(0.0, prediction.begin), 0.0, 0.0, 0))
            track.end = prediction.end
            track.total += score
            track.frames += 1
        return sorted(closed, key=lambda segment: segment.start)

    def finish(self, media_end: float | None = None) -> list[Segment]:
        """The source is over. media_end: media seconds after which there is nothing, where that is known."""
        for track in self._tracks.values():
            if media_end is not None:
                track.end = max(track.start, min(track.end, media_end))
        closed = [segment for label in list(self._tracks) for segment in self._close(label)]
        return sorted(closed, key=lambda segment: segment.start)

    def state(self) -> dict[str, Any]:
        """Plain JSON values for a snapshot."""
        return {label: asdict(track) for label, track in self._tracks.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._tracks = {label: _Track(**values) for label, values in state.items()}

    def _present(self, prediction: Prediction, class_names: tuple[str, ...]) -> dict[str, float]:
        """Labels that are there in a frame, with their probabilities."""
        if self._single:
            label = prediction.label
            return {} if label is None or not self._rule.shows(label) else {label: prediction.score}
        scores = prediction.probabilities.tolist()
        there = {name: score for name, score in zip(class_names, scores, strict=True) if self._is_there(name, score)}
        if self._joined and there:
            return {", ".join(there): sum(there.values()) / len(there)}
        return there

    def _is_there(self, name: str, score: float) -> bool:
        threshold = self._rule.threshold_of(name)
        return self._rule.shows(name) and score >= (SIGMOID_THRESHOLD if threshold is None else threshold)

    def _close(self, label: str) -> list[Segment]:
        """The stretch of a label that is over, unless it is too short to be told of."""
        track = self._tracks.pop(label)
        if track.end - track.start < self._least - TIME_SLACK:
            return []
        mean = track.total / track.frames
        return [Segment(self._source, track.start, track.end, label, mean, track.frames, self._model)]
