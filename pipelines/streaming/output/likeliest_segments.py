"""Segments of a model that has one label at a time and a least length: the likeliest sequence of labels."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from pipelines.metrics.label_path import LabelPath, Run, Values
from pipelines.metrics.probabilities import probabilities
from pipelines.metrics.rejection import Rejection
from pipelines.streaming.output.segments import CUT_SHARE, TIME_SLACK, Segment, SegmentTally
from pipelines.streaming.predicting.label_rule import LabelRule
from pipelines.streaming.predicting.prediction import Prediction

LEAST = 1e-2  # probability: no single row rules a label out
NEVER = -1e3  # the logarithm of it, where a model has no "none of these"


class LikeliestSegments:
    """The segments of one source.

    A label is a class or none of them. A row speaks for each class by its probability, and for none by how far the
    evidence is below the model's own threshold: both are logarithms of odds. A segment has as many rows that are
    nearest to its own label as it must be long: what is only likelier than all else that lasts has no name. The last
    one, which the source's end cuts off, may be half as long.

    Rows count by their probabilities as the model gives them: smoothing is for who looks at single rows, and makes
    short labels late and weak. Their evidence is the mean of as many rows as a stream's labels go by, since that of
    single rows of noise is high now and then.
    """

    def __init__(
        self,
        source: str,
        rejection: Rejection | None,
        rule: LabelRule,
        least: float,
        model: str | None = None,
        tally: SegmentTally | None = None,
        smoothed: bool = False,
        over: float = 0.0,
    ) -> None:
        """least: seconds, above 0, that a segment lasts at least. model: whose they are, where several models watch.

        smoothed: the user has asked for rows to be smoothed, so they count as they are then. over: seconds, whose mean
        evidence counts.
        """
        self._source, self._model = source, model
        self._rejection, self._rule, self._least, self._smoothed = rejection, rule, least, smoothed
        self._tally = SegmentTally() if tally is None else tally
        self._tally.least = max(self._tally.least, least)
        self._over_seconds = over
        self._evidence: deque[float] = deque()  # of the newest rows
        self._path: LabelPath | None = None
        self._names: tuple[str, ...] = ()
        self._hop = 0.0
        self._seen = 0  # rows since the window began
        self._end = 0.0  # of the newest row
        self._sums = np.zeros(
            0
        )  # (1 + classes,): rows, and their probabilities, which the segments' scores are means of
        self._told = self._named = False

    def push(self, prediction: Prediction, class_names: tuple[str, ...]) -> list[Segment]:
        """The segments that are certain with a row, in order of their start."""
        self._hop = prediction.end - prediction.begin
        gap = self._seen and (prediction.restart or prediction.begin - self._end > 0.5 * self._hop)
        closed = self._over() if gap else []
        if prediction.early:
            return closed
        if self._path is None:
            self._open(class_names)
        if prediction.restart:
            self._seen = 0
            self._evidence.clear()
        self._seen += 1
        assert self._path is not None
        shares = self._shares(prediction)
        runs = self._path.push(self._weights(prediction, shares), self._mark(max(0.0, prediction.begin)))
        self._sums[0, shares.argmax()] += 1
        self._sums[1] += shares
        self._count += 1
        self._end = prediction.end
        self._named = self._named or (prediction.label is not None and self._rule.shows(prediction.label))
        return closed + self._segments(runs)

    def finish(self, media_end: float | None = None) -> list[Segment]:
        """The source is over. media_end: media seconds after which there is nothing, where that is known."""
        if media_end is not None:
            self._end = min(self._end, media_end)
        closed = self._over()
        if self._named and not self._told:
            self._tally.short += 1
        return closed

    def state(self) -> dict[str, Any]:
        """Plain JSON values for a snapshot."""
        return {
            "path": None if self._path is None else self._path.state(),
            "names": list(self._names),
            "times": [self._hop, self._end],
            "rows": [self._seen, self._count],
            "sums": self._sums.tolist(),
            "evidence": list(self._evidence),
            "told": [self._told, self._named],
        }

    def restore(self, state: Any) -> None:
        if not isinstance(state, dict):  # of an older cotrans, which merged rows: the segments begin anew
            return
        self._hop, self._end = state["times"]
        if state["path"] is not None:
            self._open(tuple(state["names"]))
            assert self._path is not None
            self._path.restore(state["path"])
            self._sums = np.array(state["sums"])
        self._seen, self._count = state["rows"]
        self._told, self._named = state["told"]
        self._evidence = deque(state["evidence"])

    def _open(self, class_names: tuple[str, ...]) -> None:
        self._names, none = class_names, len(class_names)
        self._sums, self._count = np.zeros((2, none)), 0
        self._path = LabelPath(none + 1, self._rows(self._least), none)

    def _rows(self, seconds: float) -> int:
        return max(1, math.ceil((seconds - TIME_SLACK) / self._hop))

    def _mark(self, begin: float) -> list[float]:
        """What a segment that begins or ends with the next row needs to know of the rows before it."""
        return [begin, self._end, self._count, *self._sums.ravel().tolist()]

    def _shares(self, prediction: Prediction) -> Values:
        """(classes,) the probabilities of a row."""
        if self._smoothed:
            return prediction.probabilities
        if self._rejection is None:
            return probabilities(prediction.scores, "softmax")
        return self._rejection.probabilities(prediction.scores, "softmax")

    def _weights(self, prediction: Prediction, shares: Values) -> Values:
        """(classes + 1,) how much a row speaks for each class, and for none of them."""
        classes = np.log(np.maximum(shares, LEAST))
        if self._rejection is None:
            return np.append(classes, NEVER)
        rows = max(1, round(self._over_seconds / self._hop), self._rejection.over)
        self._evidence.append(float(self._rejection.evidence(prediction.scores)))
        while len(self._evidence) > rows:
            self._evidence.popleft()
        known = sum(self._evidence) / len(self._evidence)
        margin = self._rejection.margin(known, int(shares.argmax()), self._seen)
        there, none = (max(-float(np.logaddexp(0.0, -odds)), math.log(LEAST)) for odds in (margin, -margin))
        return np.append(classes + there, none)

    def _over(self) -> list[Segment]:
        """What there is up to a gap or the end."""
        if self._path is None:
            return []
        runs = self._path.finish(self._mark(self._end), self._rows(CUT_SHARE * self._least))
        self._path = None
        return self._segments(runs[:-1]) + self._segments(runs[-1:], CUT_SHARE)

    def _segments(self, runs: list[Run], share: float = 1.0) -> list[Segment]:
        """Those that are told of. share: of the least length, that is enough."""
        found = []
        for run in runs:
            if run.label == len(self._names):
                continue
            start, end, label = run.begin[0], run.end[1], self._names[run.label]
            frames, own, total = (
                run.end[place] - run.begin[place] for place in (2, 3 + run.label, 3 + len(self._names) + run.label)
            )
            if not self._rule.shows(label):
                self._tally.hidden += int(frames)
            elif own < self._rows(share * self._least) or end - start < share * self._least - TIME_SLACK:
                self._tally.short += 1
            else:
                found.append(Segment(self._source, start, end, label, total / frames, int(frames), self._model))
        self._tally.told += len(found)
        self._told = self._told or bool(found)
        return found
