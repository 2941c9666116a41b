"""Frames merged into stretches: start, end, label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.metrics.probabilities import ScoreKind
from pipelines.streaming.predicting.label_rule import BACKGROUND, LabelRule
from pipelines.streaming.predicting.prediction import Prediction

TIME_SLACK = 1e-6  # seconds: sums of hops are not exact
CUT_SHARE = 0.5  # of the least length: enough for a stretch that the end of its source cuts off
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
class SegmentTally:
    """What became of the stretches of all sources: enough to say why there is none."""

    told: int = 0
    short: int = 0  # left out for being shorter than `least`
    hidden: int = 0  # frames of a model with one label at a time
    least: float = 0.0  # seconds: the longest that a model asks for

    @property
    def silence(self) -> str:
        """Why no stretch was told of, and what to do."""
        if self.told:
            return ""
        if self.short:
            return f"no segment lasts {self.least:g} s, and shorter ones are left out; --least 0 tells of them too"
        if self.hidden:
            return f"no segment: only {BACKGROUND} was heard or seen; --only {BACKGROUND} tells of it"
        return f"no segment: no class that is told of reached the threshold ({SIGMOID_THRESHOLD:g}, or --threshold)"


@dataclass
class _Track:
    """A stretch that is still growing."""

    start: float
    end: float
    total: float
    frames: int


@dataclass
class _Held:
    """A stretch that is over, unless its label comes back after nothing but stretches that are too short."""

    label: str
    track: _Track
    reach: float  # media seconds: where the short stretches after it end


class SegmentMerger:
    """Merges the frames of one source.

    A softmax model has one label at a time. A sigmoid model has a stretch for each class that is there (`joined`: one
    for each set of classes, so that stretches do not overlap). A gap, or a window that restarts, ends all stretches.
    Where one label is there at a time, a stretch goes on over others that are left out for being too short, and over as
    short a time in which its own label was nearest still, but the model's rule for "none of these" turned it away. Of a
    stretch that the source's end cuts off nobody knows how long it was: half of the least length is enough.
    """

    def __init__(
        self,
        source: str,
        score_kind: ScoreKind,
        rule: LabelRule | None = None,
        joined: bool = False,
        least: float = 0,
        model: str | None = None,
        tally: SegmentTally | None = None,
    ) -> None:
        """least: seconds; shorter stretches are left out. model: whose they are, where several models watch."""
        self._source, self._model = source, model
        self._single = score_kind == "softmax"
        self._rule = rule or LabelRule()
        self._joined = joined
        self._least = least
        self._tally = SegmentTally() if tally is None else tally
        self._tally.least = max(self._tally.least, least)
        self._tracks: dict[str, _Track] = {}
        self._held: _Held | None = None

    def push(self, prediction: Prediction, class_names: tuple[str, ...]) -> list[Segment]:
        """The stretches that a frame ends, in order of their start."""
        present = {} if prediction.early else self._present(prediction, class_names)
        slack = 0.5 * (prediction.end - prediction.begin)
        closed = []
        for label, track in list(self._tracks.items()):
            gap = prediction.restart or prediction.begin - track.end > slack
            if gap or label not in present:
                closed += self._close(label)
        # A stretch that is growing leads on from the held one; a gap does not.
        if not self._tracks and (prediction.restart or prediction.begin - self._reach > slack):
            closed += self._let_go()
        elif not present and self._is_doubtful(prediction):
            self._doubt(prediction.end)
        for label, score in present.items():
            track = self._tracks.get(label) or self._begin(label, max(0.0, prediction.begin))
            self._tracks[label] = track
            track.end = prediction.end
            track.total += score
            track.frames += 1
            if self._held is not None and self._is_long(track):
                closed += self._let_go()
        return sorted(closed, key=lambda segment: segment.start)

    def finish(self, media_end: float | None = None) -> list[Segment]:
        """The source is over. media_end: media seconds after which there is nothing, where that is known."""
        for track in self._tracks.values():
            if media_end is not None:
                track.end = max(track.start, min(track.end, media_end))
        closed = [segment for label in list(self._tracks) for segment in self._close(label, CUT_SHARE)]
        return sorted([*closed, *self._let_go()], key=lambda segment: segment.start)

    def state(self) -> list[Any]:
        """Plain JSON values for a snapshot."""
        tracks = {label: asdict(track) for label, track in self._tracks.items()}
        return [tracks, None if self._held is None else asdict(self._held)]

    def restore(self, state: Sequence[Any]) -> None:
        tracks, held = state
        self._tracks = {label: _Track(**values) for label, values in tracks.items()}
        self._held = None if held is None else _Held(held["label"], _Track(**held["track"]), held["reach"])

    def _present(self, prediction: Prediction, class_names: tuple[str, ...]) -> dict[str, float]:
        """Labels that are there in a frame, with their probabilities."""
        if self._single:
            label = prediction.label
            if label is None or self._rule.shows(label):
                return {} if label is None else {label: prediction.score}
            self._tally.hidden += 1
            return {}
        scores = prediction.probabilities.tolist()
        there = {name: score for name, score in zip(class_names, scores, strict=True) if self._is_there(name, score)}
        if self._joined and there:
            return {", ".join(there): sum(there.values()) / len(there)}
        return there

    def _is_there(self, name: str, score: float) -> bool:
        threshold = self._rule.threshold_of(name)
        return self._rule.shows(name) and score >= (SIGMOID_THRESHOLD if threshold is None else threshold)

    def _is_doubtful(self, prediction: Prediction) -> bool:
        """Whether a row that is none of the classes was nearest to the held stretch's own, by the model's own rule."""
        if self._held is None or prediction.label is not None or not prediction.top:
            return False
        nearest = prediction.top[0][0]
        return nearest == self._held.label and self._rule.shows(nearest) and self._rule.threshold_of(nearest) is None

    def _doubt(self, end: float) -> None:
        """The held stretch may go on after a doubtful row, unless these are as long as a stretch of their own."""
        held = self._held
        if held is not None and end - held.track.end < self._least - TIME_SLACK:
            held.reach = end

    def _begin(self, label: str, start: float) -> _Track:
        """A new track, or that of the same label before nothing but short ones."""
        held = self._held
        if held is None or held.label != label:
            return _Track(start, 0.0, 0.0, 0)
        self._held = None
        return held.track

    @property
    def _reach(self) -> float:
        return math.inf if self._held is None else self._held.reach

    def _is_long(self, track: _Track, share: float = 1.0) -> bool:
        return track.end - track.start >= share * self._least - TIME_SLACK

    def _close(self, label: str, share: float = 1.0) -> list[Segment]:
        """What is certain now that a label's stretch is over; one that is too short is not told of.

        share: of the least length, that is enough for it.
        """
        track, held = self._tracks.pop(label), self._held
        if not self._is_long(track, share):
            self._tally.short += 1
            if held is not None:
                held.reach = track.end
            return []
        if not self._single or not self._least:
            return [self._segment(label, track)]
        closed = self._let_go()
        self._held = _Held(label, track, track.end)
        return closed

    def _let_go(self) -> list[Segment]:
        """The stretch that was held, which can grow no more."""
        held, self._held = self._held, None
        return [] if held is None else [self._segment(held.label, held.track)]

    def _segment(self, label: str, track: _Track) -> Segment:
        self._tally.told += 1
        mean = track.total / track.frames
        return Segment(self._source, track.start, track.end, label, mean, track.frames, self._model)
