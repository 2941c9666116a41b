"""The table of the paper for a user's own models, as plain data: for people, for CSV, for JSON, for a plot."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from pipelines.evaluation.comparison import Comparison, Row
from pipelines.evaluation.references import NAME as SINGLE_ROWS
from pipelines.evaluation.references import Reference
from pipelines.evaluation.scores.baseline import NAME as BASELINE
from pipelines.evaluation.scores.baseline import Baseline
from pipelines.evaluation.scores.bootstrap import Interval
from pipelines.evaluation.tables.report import Cell, Table, classification_to_dict, interval_to_dict
from pipelines.evaluation.tables.spotting_values import spotting_entries
from pipelines.plots import CostPoint
from pipelines.running.runner import Speed
from pipelines.wording import counted, memory, quantity

MOST_COLUMNS = 6  # models side by side in the table per class
FEW = 20  # recordings: a score of fewer moves in large steps

CSV_COLUMNS = (
    "model",
    "score",
    "deviation",
    "low",
    "high",
    "score_by_mean",
    "seeds",
    "step_macs",
    "window_macs",
    "parameters",
    "state_bytes",
    "step_us_median",
    "step_us_p95",
    "frames_per_second",
    "real_time_factor",
)


def main_table(comparison: Comparison) -> Table:
    """One line per model, in the units in which papers print them. Cells are text."""
    clips = comparison.metric == "accuracy"
    columns = [
        "model",
        f"{comparison.metric} (%)",
        *(["by mean (%)"] if clips else []),
        "MACs/step",
        "MACs/window",
        "parameters",
        "state",
        "µs/step",
        "p95",
        "frames/s",
        "× real time",
    ]
    rows: list[tuple[Cell, ...]] = []
    if comparison.baseline is not None:
        rows.append(_baseline_line(comparison.baseline))
    rows += [_reference_line(reference) for reference in comparison.references]
    for row in comparison.rows:
        pooled = row.mean_pooling
        rows.append(
            (
                row.name,
                _score(row.score, len(row.results), row.interval),
                *([None if pooled is None else _score(pooled, len(row.results), None)] if clips else []),
                quantity(row.cost.step_macs),
                quantity(row.cost.window_macs),
                quantity(row.cost.parameters),
                memory(row.cost.state_bytes),
                _decimal(row.step.step_us_median),
                _decimal(row.step.step_us_p95),
                f"{row.step.frames_per_second:,.0f}",
                _decimal(row.step.real_time_factor),
            )
        )
    return Table(tuple(columns), tuple(rows))


def csv_table(comparison: Comparison) -> Table:
    """The same for programs: fractions, full precision, no units in the cells."""
    rows: list[tuple[Cell, ...]] = []
    if comparison.baseline is not None:
        baseline = comparison.baseline
        rows.append(
            (
                BASELINE,
                baseline.score.accuracy,
                None,
                *_bounds(baseline.score.interval),
                None,
                1,
                baseline.macs,
                None,
                baseline.parameters,
                baseline.state_bytes,
                *(None,) * 4,
            )
        )
    for reference in comparison.references:
        costs = (1, reference.macs, None, reference.parameters, 0, *(None,) * 4)
        rows.append((reference.name, reference.evaluation.value, None, *_bounds(_interval_of(reference)), None, *costs))
    for row in comparison.rows:
        several = len(row.results) > 1
        rows.append(
            (
                row.name,
                row.score[0],
                row.score[1] if several else None,
                *_bounds(row.interval),
                None if row.mean_pooling is None else row.mean_pooling[0],
                len(row.results),
                row.cost.step_macs,
                row.cost.window_macs,
                row.cost.parameters,
                row.cost.state_bytes,
                row.step.step_us_median,
                row.step.step_us_p95,
                row.step.frames_per_second,
                row.step.real_time_factor,
            )
        )
    return Table(CSV_COLUMNS, tuple(rows))


def mode_table(comparison: Comparison) -> Table | None:
    """Score and speed of each way of running a model; None where there was only one."""
    if len(comparison.rows[0].first.scores) < 2:
        return None
    rows: list[tuple[Cell, ...]] = []
    for row in comparison.rows:
        for mode, score in row.first.scores.items():
            speed = row.first.speeds[mode]
            rows.append(
                (
                    row.name,
                    mode,
                    f"{100 * score:.2f}",
                    f"{speed.frames_per_second:,.0f}",
                    _decimal(speed.real_time_factor),
                )
            )
    return Table(("model", "mode", f"{comparison.metric} (%)", "frames/s", "× real time"), tuple(rows))


def class_table(comparison: Comparison) -> Table | None:
    """A column for each of several models, of the first seed; None for a single one, which has its own tables."""
    if len(comparison.rows) < 2 or len(comparison.rows) > MOST_COLUMNS:
        return None
    columns: list[tuple[str, tuple[str, ...], list[float | None]]] = []
    for row in comparison.rows:
        evaluation = row.first.evaluation
        if evaluation.detection is not None:
            score = evaluation.detection
            values = score.ap if score.headline == "mAP" else score.cap
            columns.append((row.name, score.classes, [_number(value) for value in values]))
        elif evaluation.clips is not None:
            last = evaluation.clips["last"]
            columns.append((row.name, last.classes, [_number(value) for value in last.per_class]))
    names = columns[0][1]
    return Table(
        ("class", *(name for name, _, _ in columns)),
        tuple((name, *(values[index] for _, _, values in columns)) for index, name in enumerate(names)),
    )


def tables(comparison: Comparison) -> list[tuple[str, Table]]:
    """Titles and tables, the main one first."""
    division = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in comparison.division.items())
    title = f"{comparison.dataset}, {comparison.part}: {counted(comparison.scored, 'recording')}"
    title += f" ({division})" if division else ""
    titled: list[tuple[str, Table | None]] = [
        (title, main_table(comparison)),
        ("The same model, run in different ways", mode_table(comparison)),
    ]
    if len(comparison.rows) == 1:
        titled += comparison.rows[0].first.evaluation.tables()
    else:
        titled.append((f"{comparison.metric} per class (%)", class_table(comparison)))
    return [(heading, table) for heading, table in titled if table is not None]


def agreement_lines(comparison: Comparison) -> list[str]:
    """The proof that the modes are the same, a line for each model."""
    return [
        f"{row.name}: {', '.join(row.first.scores)} agree: the outputs differ by at most {proof.relative:.1e} of the "
        f"largest logit ({proof.absolute:.1e}, {proof.modes[0]} against {proof.modes[1]}); the same class at "
        f"{100 * proof.same_class:.2f} % of all rows"
        for row in comparison.rows
        if (proof := row.first.agreement) is not None
    ]


def loss_lines(comparison: Comparison) -> list[str]:
    """What fewer bits cost, a line for each model."""
    lines = []
    for row in comparison.rows:
        loss = row.first.loss
        if loss is not None:
            lines.append(
                f"{row.name} in {loss.precision}: {comparison.metric} {100 * row.values[0]:.2f} %, in float32 "
                f"{100 * loss.float32_score:.2f} %; probabilities differ by at most {loss.largest_difference:.4f}, the "
                f"same class at {100 * loss.same_class:.2f} % of all rows"
            )
    return lines


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """Plain JSON types; fractions. The first model's scores stand at the top, as for `--predictions`."""
    return {
        **comparison.rows[0].first.evaluation.to_dict(),
        "part": comparison.part,
        "options": {key: str(value) for key, value in comparison.division.items()},
        "items": comparison.items,
        "damaged": [asdict(damage) for damage in comparison.damaged],
        "hop": comparison.rows[0].first.hop,
        "baseline": None if comparison.baseline is None else _baseline_dict(comparison.baseline),
        "references": [_reference_dict(reference) for reference in comparison.references],
        "models": [_row_dict(row) for row in comparison.rows],
        "notes": all_notes(comparison),
    }


def all_notes(comparison: Comparison) -> list[str]:
    """What a reader of the numbers must know: how few recordings they are of, then damaged items."""
    notes = []
    if comparison.items < FEW:
        notes.append(f"only {counted(comparison.items, 'recording')} to score: the figures say little about others")
    if comparison.damaged:
        count = len(comparison.damaged)
        notes.append(f"{count} of {comparison.items} recordings could not be used and are not in the scores")
        notes += [f"left out: {damage.name}: {damage.reason}" for damage in comparison.damaged]
    for row in comparison.rows:
        notes += [f"{row.name}: {note}" for note in row.first.evaluation.notes]
    return list(dict.fromkeys([*notes, *comparison.notes]))


def cost_points(comparison: Comparison) -> list[CostPoint]:
    """Figure 2 of the paper: each model twice, since the regular model has the same score for more work."""
    points = []
    for row in comparison.rows:
        mean, deviation = row.score
        points += [
            CostPoint(row.name, row.cost.step_macs, mean, deviation, "continual: one step"),
            CostPoint(row.name, row.cost.window_macs, mean, deviation, "regular: the whole window"),
        ]
    points += [
        CostPoint(reference.name, reference.macs, reference.evaluation.value, family=SINGLE_ROWS)
        for reference in comparison.references
    ]
    if comparison.baseline is not None:
        points.append(
            CostPoint(BASELINE, comparison.baseline.macs, comparison.baseline.score.accuracy, family=BASELINE)
        )
    return points


def _baseline_line(baseline: Baseline) -> tuple[Cell, ...]:
    score = _score((baseline.score.accuracy, 0.0), 1, baseline.score.interval)
    costs = (quantity(baseline.macs), None, quantity(baseline.parameters), memory(baseline.state_bytes))
    return (BASELINE, score, None, *costs, None, None, None, None)


def _reference_line(reference: Reference) -> tuple[Cell, ...]:
    score = _score((reference.evaluation.value, 0.0), 1, _interval_of(reference))
    return (reference.name, score, quantity(reference.macs), None, quantity(reference.parameters), *(None,) * 5)


def _interval_of(reference: Reference) -> Interval | None:
    detection = reference.evaluation.detection
    return None if detection is None else detection.intervals.get(detection.headline)


def _reference_dict(reference: Reference) -> dict[str, Any]:
    return {
        "name": reference.name,
        "macs": reference.macs,
        "parameters": reference.parameters,
        "fitted_rows": reference.fitted_rows,
        **reference.evaluation.to_dict(),
    }


def _score(value: tuple[float, float], seeds: int, interval: Interval | None) -> str:
    mean, deviation = value
    if seeds > 1:
        return f"{100 * mean:.2f} ± {100 * deviation:.2f}"
    bounds = "" if interval is None else f" [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"
    return f"{100 * mean:.2f}{bounds}"


def _row_dict(row: Row) -> dict[str, Any]:
    first = row.first
    return {
        "name": row.name,
        "checkpoints": [str(path) for path in row.files],
        "value": _number(row.score[0]),
        "deviation": row.score[1] if len(row.results) > 1 else None,
        "values": [_number(value) for value in row.values],
        "interval": None if row.interval is None else interval_to_dict(row.interval),
        "evaluations": [result.evaluation.to_dict() for result in row.results],
        "modes": {
            mode: {"value": _number(score), **_speed_dict(first.speeds[mode])} for mode, score in first.scores.items()
        },
        "agreement": None if first.agreement is None else asdict(first.agreement),
        "precision": None if first.loss is None else asdict(first.loss),
        "cost": asdict(row.cost),
        "step": _speed_dict(row.step),
        **spotting_entries(first.spotting, first.other_sound),
    }


def _baseline_dict(baseline: Baseline) -> dict[str, Any]:
    return {
        "name": BASELINE,
        "value": baseline.score.accuracy,
        "row_accuracy": baseline.row_accuracy,
        "fitted_rows": baseline.fitted_rows,
        "macs": baseline.macs,
        "parameters": baseline.parameters,
        "state_bytes": baseline.state_bytes,
        **classification_to_dict({"vote": baseline.score}),
    }


def _speed_dict(speed: Speed) -> dict[str, Any]:
    return asdict(speed)


def _bounds(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _decimal(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
