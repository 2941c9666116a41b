"""What the model says about one row, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple, TypeAlias

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
    early: bool = False  # a model with a lag speaks of what was before its window began: there is no such row

    def to_dict(self) -> dict[str, Any]:
        """A JSON line, but for the raw scores of all classes."""
        return {
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
            **({"early": True} if self.early else {}),
            "latency_ms": round(self.latency_ms, 3),
        }

    def score_texts(self) -> list[str]:
        """The raw scores as numbers of a text, to the last bit."""
        return [f"{score:.9g}" for score in self.scores.tolist()]


class Answer(NamedTuple):
    """What one row says."""

    probabilities: NDArray[np.float64]  # (classes,) in the order of the classes, smoothed
    label: str | None
    score: float  # probability of the best class
    top: tuple[tuple[str, float], ...]  # best classes with their probabilities


Values: TypeAlias = NDArray[np.float64]


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
        self._smooth_rows = max(1, smooth_rows)
        self._evidence_rows = max(self._smooth_rows, 1 if rejection is None else rejection.over)
        self.restart()

    def restart(self) -> None:
        """Forget what came before a gap."""
        self._recent = np.zeros((0, len(self.class_names)))  # (rows, classes) that still count, the evidence of which
        self._evidence = np.zeros(0)  # (rows,) stands here
        if self._order is not None:
            self._order.restart()

    def answers(self, scores: NDArray[np.float32], heard: Sequence[int] | None = None) -> list[Answer]:
        """What the next rows (rows, classes) of the source say. heard: as in `best`."""
        rows = [None] * len(scores) if heard is None else heard
        return answers_together([Heard(self, scores, rows)])[0]

    def _read(self, scores: NDArray[np.float32]) -> tuple[Values, Values | None]:
        """Rows (rows, classes) of any sources: their probabilities, and their evidence where the model has a rule."""
        if self._rejection is None:
            return probabilities(scores, self._score_kind), None
        return self._rejection.probabilities(scores, self._score_kind), self._rejection.evidence(scores)

    def _follow(self, single: Values, evidence: Values | None) -> tuple[Values, list[float]]:
        """What was read of the next rows of the source, with what came before them."""
        known: list[float] = []
        if evidence is not None:
            smooth, self._evidence = self._smoothed(self._evidence, evidence, self._evidence_rows)
            known = smooth.tolist()
        means, self._recent = self._smoothed(self._recent, single, self._smooth_rows)
        if self._order is not None:
            means = np.stack([self._order.push(row) for row in means])
        return means, known

    def best(
        self,
        probabilities: NDArray[np.float64],
        evidence: Sequence[float] | None = None,
        heard: Sequence[int | None] | None = None,
    ) -> list[Answer]:
        """Label, score and best classes of rows (rows, classes); equal ones in the checkpoint's order.

        evidence: of each row, where the model has a rule for "none of these". heard: rows of the stream up to each, of
        which the first may need more evidence; None: many.
        """
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, : self._top_k]
        scores = np.take_along_axis(probabilities, order, 1).tolist()
        answers = []
        for row, (places, values) in enumerate(zip(order.tolist(), scores, strict=True)):
            top = tuple((self.class_names[place], value) for place, value in zip(places, values, strict=True))
            known = None if evidence is None else evidence[row]
            there = self._is_there(places[0], values[0], known, None if heard is None else heard[row])
            answers.append(Answer(probabilities[row], top[0][0] if there else None, values[0], top))
        return answers

    def _is_there(self, best: int, score: float, evidence: float | None, heard: int | None) -> bool:
        label = self.class_names[best]
        if not self._rule.shows(label):
            return False
        threshold = self._rule.threshold_of(label)
        if threshold is not None:
            return score >= threshold
        if self._rejection is None or evidence is None:
            return True
        return evidence >= self._rejection.threshold_of(best, heard)

    def _smoothed(self, before: Values, values: Values, rows: int) -> tuple[Values, Values]:
        """The means of values, each with those before it, `rows` in all, and what still counts after them."""
        if rows == 1 and len(values) >= self._evidence_rows:
            return values, values[-self._evidence_rows :].copy()
        joined = np.concatenate([before, values])
        if rows > 1:
            ends = range(len(before) + 1, len(joined) + 1)
            values = np.stack([joined[max(0, end - rows) : end].mean(axis=0) for end in ends])
        return values, joined[-self._evidence_rows :]

    def state(self) -> list[list[float]]:
        """Plain JSON values for a snapshot: probabilities, and the evidence after them where there is any."""
        if self._rejection is None:
            rows: list[list[float]] = self._recent.tolist()
            return rows
        return [[*row, known] for row, known in zip(self._recent.tolist(), self._evidence.tolist(), strict=True)]

    def order_state(self) -> list[float]:
        """Plain JSON values for a snapshot: where in their order the classes stand, where they have one."""
        return [] if self._order is None else self._order.state()

    def restore(self, state: list[list[float]], order: Sequence[float] = ()) -> None:
        """state, order: as `state` and `order_state` gave them."""
        self.restart()
        if self._order is not None:
            self._order.restore(order)
        classes = len(self.class_names)
        ruled = self._rejection is not None
        # Rows from before the model was given its rule have no evidence: they are forgotten.
        if rows := [row for row in state if len(row) >= classes + ruled]:
            self._recent = np.array([row[:classes] for row in rows], np.float64)
            self._evidence = np.array([row[classes] for row in rows if ruled], np.float64)


class Heard(NamedTuple):
    """The next rows of a source, of which only the first may come after a gap."""

    interpreter: Interpreter
    scores: NDArray[np.float32]  # (rows, classes)
    rows: Sequence[int | None]  # `heard` as in `Interpreter.best`
    restarts: bool = False  # forget what came before


def answers_together(parts: Sequence[Heard]) -> list[list[Answer]]:
    """`Interpreter.answers` of each source, of one model and rule: what rows have in common is done once."""
    reader = parts[0].interpreter
    borders = list(pairwise(accumulate((len(part.scores) for part in parts), initial=0)))
    single, evidence = reader._read(np.concatenate([part.scores for part in parts]))
    means: list[Values] = []
    known: list[float] = []
    for part, (begin, end) in zip(parts, borders, strict=True):
        if part.restarts:
            part.interpreter.restart()
        mean, sure = part.interpreter._follow(single[begin:end], None if evidence is None else evidence[begin:end])
        means.append(mean)
        known += sure
    heard = list(chain.from_iterable(part.rows for part in parts))
    answers = reader.best(np.concatenate(means), None if evidence is None else known, heard)
    return [answers[begin:end] for begin, end in borders]
