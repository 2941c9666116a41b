"""What the model says about one row, in words."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.metrics.probabilities import ScoreKind, probabilities


@dataclass(frozen=True, eq=False)
class Prediction:
    """One line of output."""

    source: str
    source_number: int  # in the order given
    index: int  # of the row in the stream
    time: float  # media seconds
    begin: float  # media seconds: the stretch that the prediction speaks of, earlier for models with a lag
    end: float
    label: str | None  # None: no class reaches the threshold
    score: float  # probability of the best class
    top: tuple[tuple[str, float], ...]  # best classes with their probabilities
    warmup: bool  # fewer rows than the window holds were seen
    latency_ms: float  # from the moment at which the row's media had been played
    scores: NDArray[np.float32]  # (classes,) as the model gives them: before softmax or sigmoid, never smoothed
    probabilities: NDArray[np.float64]  # (classes,) after softmax or sigmoid and smoothing
    restart: bool = False  # the window restarted with this row

    def to_dict(self, scores: bool = False) -> dict[str, Any]:
        """A JSON line. scores: with the raw scores of all classes."""
        value: dict[str, Any] = {
            "source": self.source,
            "index": self.index,
            "time": round(self.time, 6),
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
        threshold: float = 0.0,
        smooth_rows: int = 1,
    ) -> None:
        self.class_names = tuple(class_names)
        self._score_kind = score_kind
        self._top_k = top_k
        self._threshold = threshold
        self._recent: deque[NDArray[np.float64]] = deque(maxlen=max(1, smooth_rows))

    def restart(self) -> None:
        """Forget what came before a gap."""
        self._recent.clear()

    def probabilities(self, scores: NDArray[np.float32]) -> NDArray[np.float64]:
        """(classes,) -> (classes,): the mean of the newest rows' probabilities."""
        self._recent.append(probabilities(scores, self._score_kind))
        return self._recent[0] if len(self._recent) == 1 else np.mean(np.stack(list(self._recent)), axis=0)

    def best(self, probabilities: NDArray[np.float64]) -> tuple[str | None, float, tuple[tuple[str, float], ...]]:
        """Label, its score and the best classes, in order; equal ones in the checkpoint's order."""
        order = np.argsort(-probabilities, kind="stable")[: self._top_k]
        top = tuple((self.class_names[place], float(probabilities[place])) for place in order)
        label, score = top[0]
        return (label if score >= self._threshold else None), score, top

    def state(self) -> list[list[float]]:
        """Plain JSON values for a snapshot."""
        return [row.tolist() for row in self._recent]

    def restore(self, state: list[list[float]]) -> None:
        self._recent.clear()
        self._recent.extend(np.array(row, np.float64) for row in state)
