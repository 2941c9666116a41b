"""Results as plain data: dictionaries for JSON, tables for CSV and Markdown."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipelines.evaluation.scores.bootstrap import Interval
from pipelines.evaluation.scores.classification import ClassificationScore, Pooling
from pipelines.evaluation.scores.detection import DetectionScore
from pipelines.evaluation.scores.ordered_events import EventScore
from pipelines.metrics.precision import mean_of_present

if TYPE_CHECKING:
    import pandas

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Rows of plain values under column names; None is an empty cell."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def detection_to_dict(score: DetectionScore) -> dict[str, Any]:
    """Fractions, not percent; a class without positives has null."""
    result: dict[str, Any] = {
        "protocol": score.protocol,
        "metric": score.headline,
        "value": _number(score.value),
        "mAP": _number(score.mAP),
        "mcAP": _number(score.mcAP),
        "classes": list(score.classes),
        "ap": [_number(value) for value in score.ap],
        "cap": [_number(value) for value in score.cap],
        "positives": [int(count) for count in score.positives],
        "frames": score.frames,
        "trimmed": score.trimmed,
        "ambiguous": score.ambiguous,
        "videos": score.videos,
        "intervals": {name: interval_to_dict(interval) for name, interval in score.intervals.items()},
        "notes": list(score.notes),
    }
    if score.stage_ap is not None and score.stage_cap is not None:
        result["stages"] = {
            "mAP": [_number(mean_of_present(row)) for row in score.stage_ap],
            "mcAP": [_number(mean_of_present(row)) for row in score.stage_cap],
        }
    if score.diagnosis is not None:
        result["diagnosis"] = {
            "precision": score.diagnosis.precision,
            "hours": score.diagnosis.hours,
            "total": asdict(score.diagnosis.total),
            "classes": [asdict(diagnosed) for diagnosed in score.diagnosis.classes],
        }
    if score.anticipation:
        result["anticipation"] = [
            {key: _number(value) if isinstance(value, float) else value for key, value in asdict(item).items()}
            for item in score.anticipation
        ]
    return result


def event_table(score: EventScore) -> Table:
    """An event on each line: the phase that begins with it, and in how many recordings it is found in time."""
    return Table(("begins", "found"), (*zip(score.events, score.found, strict=True), ("all", score.pce)))


def classification_to_dict(scores: dict[Pooling, ClassificationScore]) -> dict[str, Any]:
    """Per pooling: accuracy, per-class accuracy and confusion counts (rows are true classes)."""
    first = next(iter(scores.values()))
    return {
        "metric": "accuracy",
        "value": _number(first.accuracy),
        "classes": list(first.classes),
        "clips": first.clips,
        "notes": list(first.notes),
        "poolings": {
            pooling: {
                "accuracy": _number(score.accuracy),
                "per_class": [_number(value) for value in score.per_class],
                "confusion": score.confusion.tolist(),
                "interval": None if score.interval is None else interval_to_dict(score.interval),
            }
            for pooling, score in scores.items()
        },
    }


def interval_to_dict(interval: Interval) -> dict[str, Any]:
    """Bounds, level and how many resamples they come from."""
    return asdict(interval)


def detection_table(score: DetectionScore) -> Table:
    """One row per class and one for the mean."""
    rows: list[tuple[Cell, ...]] = [
        (name, _number(ap), _number(cap), int(count))
        for name, ap, cap, count in zip(score.classes, score.ap, score.cap, score.positives, strict=True)
    ]
    rows.append(("mean", _number(score.mAP), _number(score.mcAP), int(score.positives.sum())))
    return Table(("class", "AP", "cAP", "frames"), tuple(rows))


def stage_table(score: DetectionScore) -> Table | None:
    """mAP and mcAP of each tenth of an action; None where the protocol has no stages."""
    if score.stage_ap is None or score.stage_cap is None:
        return None
    tenths = enumerate(zip(score.stage_ap, score.stage_cap, strict=True))
    return Table(
        ("part of the action", "mAP", "mcAP"),
        tuple(
            (f"{10 * tenth}–{10 * tenth + 10} %", _number(mean_of_present(ap)), _number(mean_of_present(cap)))
            for tenth, (ap, cap) in tenths
        ),
    )


def diagnosis_table(score: DetectionScore) -> Table | None:
    """Per class: actions and how many are found, seconds until they are, and false alarms; None without a diagnosis."""
    if score.diagnosis is None:
        return None
    return Table(
        ("class", "actions", "found", "delay (s)", "false alarms per hour"),
        tuple(
            (
                row.name,
                row.actions,
                row.found,
                None if row.delay is None else f"{row.delay:.2f}",
                f"{row.false_alarms:.1f}",
            )
            for row in (*score.diagnosis.classes, score.diagnosis.total)
        ),
    )


def anticipation_table(score: DetectionScore) -> Table | None:
    """mAP and mcAP per horizon; None without anticipation scores."""
    if not score.anticipation:
        return None
    return Table(
        ("frames ahead", "mAP", "mcAP"),
        tuple((item.ahead, _number(item.mAP), _number(item.mcAP)) for item in score.anticipation),
    )


def classification_table(scores: dict[Pooling, ClassificationScore]) -> Table:
    """One row per class and one over all clips; a column per pooling."""
    first = next(iter(scores.values()))
    clips = first.confusion.sum(axis=1)
    rows: list[tuple[Cell, ...]] = [
        (name, *(_number(score.per_class[index]) for score in scores.values()), int(clips[index]))
        for index, name in enumerate(first.classes)
    ]
    rows.append(("all", *(_number(score.accuracy) for score in scores.values()), first.clips))
    return Table(("class", *scores, "clips"), tuple(rows))


def to_csv(table: Table) -> str:
    """Comma-separated text with full precision; an empty field for a missing value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([["" if cell is None else cell for cell in row] for row in table.rows])
    return text.getvalue()


def to_frame(table: Table) -> pandas.DataFrame:
    """A pandas table for notebooks, full precision."""
    import pandas

    return pandas.DataFrame(list(table.rows), columns=list(table.columns))


def to_markdown(table: Table) -> str:
    """A Markdown table; fractions in percent, everything but the first column to the right."""
    cells = [[format_cell(cell).replace("|", "\\|") for cell in row] for row in table.rows]
    rule = ["---", *["---:"] * (len(table.columns) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [list(table.columns), rule, *cells]) + "\n"


def format_cell(cell: Cell) -> str:
    """What a person reads: fractions as percent with two digits, counts as they are, – for nothing."""
    if cell is None:
        return "–"
    return f"{100 * cell:.2f}" if isinstance(cell, float) else str(cell)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation over runs (n − 1 in the denominator; 0 for a single run)."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
