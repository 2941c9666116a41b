"""What one model says of one source, as a page is told of it."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np

from pipelines.serving.ring import Ring
from pipelines.streaming.output.summary import SourceStatistics
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.predicting.stream_model import StreamModel
from pipelines.streaming.sources.names import base_name

RECENT_ROWS = 2400  # rows that somebody who comes late still sees: ten minutes of 4 a second
MOST_CLASSES = 12  # of a row: those with the highest scores
LEAST_SCORE = 2  # thousandths: half of what a page can show
PACE_SAMPLES = 10  # over which the pace is measured, one a second


class Track:
    """Predictions are left here by the stream's thread, and written down by the server's."""

    def __init__(self, source: int, model: StreamModel, name: str) -> None:
        """source: which source it speaks of. name: what the model is called on the page."""
        self.source, self.name = source, name
        self._model = model
        self._numbers = {label: number for number, label in reversed(list(enumerate(model.class_names)))}
        self._waiting: deque[Prediction] = deque(maxlen=RECENT_ROWS)
        self._rows = Ring(RECENT_ROWS)
        self._pace: deque[tuple[float, float]] = deque(maxlen=PACE_SAMPLES)  # clock, seconds of media
        self.begun = False  # whether anything was said

    def predicted(self, prediction: Prediction) -> None:
        """From the stream's thread."""
        self._waiting.append(prediction)

    def collect(self, number: int) -> bool:
        """Write down what waits, as part of message `number`; whether there was anything."""
        waiting = len(self._waiting)
        for _ in range(waiting):  # not for as long as there is one: a fast stream never pauses
            self._rows.add(number, self._row(self._waiting.popleft()))
        self.begun = self.begun or waiting > 0
        return waiting > 0

    def since(self, number: int) -> str | None:
        """`[missing, [row, …]]` after message `number`; None where there is nothing."""
        missing, rows = self._rows.since(number)
        return f"[{int(missing)},[{','.join(rows)}]]" if rows else None

    def describe(self) -> dict[str, Any]:
        """Plain JSON types; once for each page."""
        return {
            "source": self.source,
            "model": self.name,
            "classes": list(self._model.class_names),
            "kind": self._model.score_kind,
        }

    def numbers(self, counts: SourceStatistics) -> dict[str, float | bool | None]:
        """Pace over the last seconds, latency and what was lost."""
        self._pace.append((time.monotonic(), counts.seconds))
        (begin, before), (now, seconds) = self._pace[0], self._pace[-1]
        p50, p95 = (1e3 * counts.latency.percentile(percent) for percent in (50, 95))
        return {
            "pace": round((seconds - before) / (now - begin), 3) if now > begin else None,
            "p50_ms": round(p50, 1),
            "p95_ms": round(p95, 1),
            "frames": counts.frames,
            "dropped": counts.dropped,
            "broken": counts.broken,
            "reconnects": counts.reconnects,
            "failed": counts.error is not None,
        }

    def _row(self, prediction: Prediction) -> str:
        """`[begin, end, label, state, latency, [class, score, …]]`: seconds, a number of a class or −1, 1 for warm-up
        and 2 for a window that restarted, milliseconds, and the classes with the highest scores in thousandths."""
        best = np.argsort(-prediction.probabilities, kind="stable")[:MOST_CLASSES]
        thousandths = np.rint(1000 * prediction.probabilities[best]).astype(int)
        pairs = zip(best.tolist(), thousandths.tolist(), strict=True)
        scores = [value for pair in pairs if pair[1] >= LEAST_SCORE for value in pair]
        label = -1 if prediction.label is None else self._numbers[prediction.label]
        state = int(prediction.warmup) + 2 * int(prediction.restart)
        times = f"{prediction.begin:.3f},{prediction.end:.3f}"
        return f"[{times},{label},{state},{prediction.latency_ms:.1f},{scores}]"


def model_name(model: StreamModel) -> str:
    """Without the folders of a checkpoint."""
    return base_name(model.name)
