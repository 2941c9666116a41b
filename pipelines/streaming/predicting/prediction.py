"""What the model says about one row, in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.class_order import OrderFilter
from pipelines.metrics.probabilities import ScoreKind, probabilities
from pipelines.metrics.rejection import Rejection
from pipelines.streaming.predicting.label_rule import LabelRule


@dataclass(frozen=True, eq=False)
class Prediction:
    """One line of output."""

    source: str
    source_number: int  # in the order given
    index: int  # of the row in the stream
    time: float  # media seconds
    begin: float  # media seconds: the stretch that the prediction speaks of, earlier for models with a lag
    end: float
    label: str | None  # None: none of the classes, or none that the user wants to hear of
    score: float  # probability of the best class
    top: tuple[tuple[str, float], ...]  # best classes with their probabilities
    warmup: bool  # fewer rows than the window holds were seen
    latency_ms: float  # from the moment at which the row's media had been played
    scores: NDArray[np.float32]  # (classes,) as the model gives them: before softmax or sigmoid, never smoothed
    probabilities: NDArray[np.float64]  # (classes,) after softmax or sigmoid, smoothing and the order of the classes
    restart: bool = False  # the window restarted with this row
    model: str | None = None  # whose it is, where several models watch

    def to_dict(self, scores: bool = False) -> dict[str, Any]:
        """A JSON line. scores: with the raw scores of all classes."""
        value: dict[str, Any] = {
            "source": self.source,
            **({} if self.model is None else {"model": self.model}),
            "index": self.index,
            "time": round(self.time, 6),
            "begin": round(self.begin, 6),
            "end": round(self.end, 6),
            "label": self.label,
            "score": round(self.score, 6),
            "top": [[label, round(score, 6)] for label, score in self.top],
            "warmup": self.warmup,
            "latency_ms": round(self.latency_ms, 3),
        }
        if scores:
            value["scores"] = [float(f"{score:.9g}") for score in self.scores.tolist()]
        return value


class Interpreter:
    """From the raw scores of one source to probabilities, smoothed over the last rows, and the best classes."""

    def __init__(
        self,
        class_names: Sequence[str],
        score_kind: ScoreKind,
        top_k: int = 3,
        rule: LabelRule | None = None,
        smooth_rows: int = 1,
        rejection: Rejection | None = None,
        order: OrderFilter | None = None,
    ) -> None:
        """rejection: the model's own rule for "none of these"; None: it always names a class.

        order: of classes that follow each other, for this source alone; None: any may follow any.
        """
        self.class_names = tuple(class_names)
        self._score_kind = score_kind
        self._top_k = top_k
        self._rule = rule or LabelRule()
        self._rejection = rejection
        self._order = order
        self._recent: deque[NDArray[np.float64]] = deque(maxlen=max(1, smooth_rows))
        self._evidence: deque[float] = deque(maxlen=max(1, smooth_rows))

    def restart(self) -> None:
        """Forget what came before a gap."""
        self._recent.clear()
        self._evidence.clear()
        if self._order is not None:
            self._order.restart()

    def probabilities(self, scores: NDArray[np.float32]) -> NDArray[np.float64]:
        """(classes,) -> (classes,): the mean of the newest rows' probabilities, in the order of the classes."""
        if self._rejection is None:
            self._recent.append(probabilities(scores, self._score_kind))
        else:
            self._recent.append(self._rejection.probabilities(scores, self._score_kind))
            self._evidence.append(float(self._rejection.evidence(scores)))
        mean = self._recent[0] if len(self._recent) == 1 else np.mean(np.stack(list(self._recent)), axis=0)
        return mean if self._order is None else self._order.push(mean)

    def best(
        self, probabilities: NDArray[np.float64], heard: int | None = None
    ) -> tuple[str | None, float, tuple[tuple[str, float], ...]]:
        """Label of the newest row, its score and the best classes, in order; equal ones in the checkpoint's order.

        heard: rows of the stream so far, of which the first may need more evidence; None: many.
        """
        order = np.argsort(-probabilities, kind="stable")[: self._top_k]
        top = tuple((self.class_names[place], float(probabilities[place])) for place in order)
        label, score = top[0]
        return (label if self._is_there(int(order[0]), score, heard) else None), score, top

    def _is_there(self, best: int, score: float, heard: int | None) -> bool:
        label = self.class_names[best]
        if not self._rule.shows(label):
            return False
        threshold = self._rule.threshold_of(label)
        if threshold is not None:
            return score >= threshold
        if self._rejection is None:
            return True
        return sum(self._evidence) / len(self._evidence) >= self._rejection.threshold_of(best, heard)

    def state(self) -> list[list[float]]:
        """Plain JSON values for a snapshot: probabilities, and the evidence after them where there is any."""
        if self._rejection is None:
            return [row.tolist() for row in self._recent]
        return [[*row.tolist(), known] for row, known in zip(self._recent, self._evidence, strict=True)]

    def order_state(self) -> list[float]:
        """Plain JSON values for a snapshot: where in their order the classes stand, where they have one."""
        return [] if self._order is None else self._order.state()

    def restore(self, state: list[list[float]], order: Sequence[float] = ()) -> None:
        """state, order: as `state` and `order_state` gave them."""
        self.restart()
        if self._order is not None:
            self._order.restore(order)
        classes = len(self.class_names)
        for row in state:
            self._recent.append(np.array(row[:classes], np.float64))
            self._evidence.extend(row[classes:])
