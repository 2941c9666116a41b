"""Frames merged into stretches: start, end, label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.metrics.probabilities import ScoreKind
from pipelines.streaming.predicting.prediction import Prediction

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

    def to_dict(self) -> dict[str, Any]:
        value = asdict(self)
        return {**value, **{name: round(value[name], 6) for name in ("start", "end", "score")}}


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

    def __init__(self, source: str, score_kind: ScoreKind, threshold: float, joined: bool = False) -> None:
        self._source = source
        self._single = score_kind == "softmax"
        self._threshold = threshold if threshold or self._single else SIGMOID_THRESHOLD
        self._joined = joined
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
                closed.append(self._close(label))
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
        return sorted((self._close(label) for label in list(self._tracks)), key=lambda segment: segment.start)

    def state(self) -> dict[str, Any]:
        """Plain JSON values for a snapshot."""
        return {label: asdict(track) for label, track in self._tracks.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._tracks = {label: _Track(**values) for label, values in state.items()}

    def _present(self, prediction: Prediction, class_names: tuple[str, ...]) -> dict[str, float]:
        """Labels that are there in a frame, with their probabilities."""
        if self._single:
            return {} if prediction.label is None else {prediction.label: prediction.score}
        scores = prediction.probabilities.tolist()
        found = {name: score for name, score in zip(class_names, scores, strict=True) if score >= self._threshold}
        if self._joined and found:
            return {", ".join(found): sum(found.values()) / len(found)}
        return found

    def _close(self, label: str) -> Segment:
        track = self._tracks.pop(label)
        return Segment(self._source, track.start, track.end, label, track.total / track.frames, track.frames)
