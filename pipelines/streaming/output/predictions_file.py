"""Reading predictions back: the JSON lines that `cotrans stream --format jsonl` writes."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.errors import InputError
from pipelines.metrics.probabilities import ScoreKind
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.untrusted.parsing import json_value

LONE_HOP = 0.25  # seconds that a row covers where nothing says it, as for feature files
ROUNDED = 1e-5  # by which a written score may be off


@dataclass(frozen=True)
class PredictedSource:
    """What one model said about one source."""

    name: str
    model: str | None
    class_names: tuple[str, ...]  # that any line names, in order of the alphabet
    predictions: tuple[Prediction, ...]  # in order of time; classes that a line does not name have probability 0

    @property
    def score_kind(self) -> ScoreKind:
        """Softmax, unless the classes of a row add up to more than it ever gives."""
        most = 1 + ROUNDED * max(1, len(self.class_names))
        return "sigmoid" if any(row.probabilities.sum() > most for row in self.predictions) else "softmax"


# Rows times classes: a line names a few classes, and a small file of lines that all name others would become large.
MOST_SCORES, SCORES_PER_BYTE = 8_000_000, 8


@dataclass
class _Lines:
    """The lines of one source and model, as they were read."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """The classes that are named in any of them."""
        return tuple(sorted({label for row in self.rows for label, _ in row["top"]}))

    def source(self, name: str, model: str | None, number: int) -> PredictedSource:
        rows = sorted(self.rows, key=lambda row: row["time"])
        names = self.names
        place = {label: index for index, label in enumerate(names)}
        hop = _hop([row["time"] for row in rows])
        predictions = []
        for row in rows:
            probabilities = np.zeros(len(names))
            for label, score in row["top"]:
                probabilities[place[label]] = score
            predictions.append(
                Prediction(
                    source=name,
                    source_number=number,
                    index=row["index"],
                    time=row["time"],
                    begin=row.get("begin", row["time"] - hop),
                    end=row.get("end", row["time"]),
                    label=row["label"],
                    score=row["top"][0][1],
                    top=tuple((label, score) for label, score in row["top"]),
                    warmup=bool(row.get("warmup", False)),
                    latency_ms=row.get("latency_ms", 0.0),
                    scores=np.zeros(0, np.float32),
                    probabilities=probabilities,
                    model=model,
                    early=bool(row.get("early", False)),
                )
            )
        return PredictedSource(name, model, names, tuple(predictions))


def read_predictions_file(path: Path) -> list[PredictedSource]:
    """The predictions of each source and model, by the sources' names: lines come in the order of the moment."""
    if path.is_dir():
        page = path / "report.html"
        other = f"the page of a run is {page}" if page.is_file() else "give a file of predictions in it"
        raise InputError(f"{path} is a folder: {other}")
    groups: dict[tuple[str, str | None], _Lines] = {}
    read = 0  # bytes
    for row, size in _rows(path):
        read += size
        groups.setdefault((row["source"], row.get("model")), _Lines()).rows.append(row)
    if not groups:
        raise InputError(f"{path}: no predictions in it: write them with `cotrans stream FILE --out {path.name}`")
    if sum(len(lines.rows) * len(lines.names) for lines in groups.values()) > MOST_SCORES + SCORES_PER_BYTE * read:
        raise InputError(f"{path}: more classes than its model can have: not what `cotrans stream` wrote")
    ordered = sorted(groups.items(), key=lambda group: group[0][0])
    return [lines.source(*names, number) for number, (names, lines) in enumerate(ordered)]


def _rows(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Each line, and its length."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    yield _row(f"{path}, line {number}", text), len(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: no predictions, which are text: `cotrans stream {path.name} --report FILE.html` makes the page "
            "of a recording at once"
        ) from error


def _row(where: str, text: str) -> dict[str, Any]:
    try:
        row = json_value(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON: give what `cotrans stream --format jsonl` wrote") from error
    if isinstance(row, dict) and "start" in row and "time" not in row:
        raise InputError(f"{where}: a stretch, not a prediction: write the file without --segments")
    if not isinstance(row, dict) or not _is_prediction(row):
        raise InputError(f"{where}: not a prediction (source, index, time, label, top): see docs/stream.md")
    return row


def _is_prediction(row: dict[str, Any]) -> bool:
    top = row.get("top")
    return (
        isinstance(row.get("source"), str)
        and isinstance(row.get("model", ""), str)
        and isinstance(row.get("index"), int)
        and _is_number(row.get("time"))
        and all(_is_number(row[name]) for name in ("begin", "end", "latency_ms") if name in row)
        and "label" in row
        and isinstance(row["label"], str | None)
        and isinstance(top, list)
        and len(top) > 0
        and all(isinstance(pair, list) and len(pair) == 2 and _is_scored(*pair) for pair in top)
    )


def _is_scored(label: Any, score: Any) -> bool:
    return isinstance(label, str) and _is_number(score) and 0.0 <= score <= 1.0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _hop(times: list[float]) -> float:
    """Seconds from row to row, of most rows."""
    steps = [later - earlier for earlier, later in itertools.pairwise(times) if later > earlier]
    return statistics.median(steps) if steps else LONE_HOP
