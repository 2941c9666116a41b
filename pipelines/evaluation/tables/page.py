"""`cotrans evaluate --report`: the table, confusion, scores per class and the worst recordings as a page to look at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import UsageError
from pipelines.evaluation.comparison import Comparison, Row
from pipelines.evaluation.model_evaluation import ModelEvaluation
from pipelines.evaluation.scores.classification import clip_labels
from pipelines.evaluation.scores.diagnosis import runs
from pipelines.evaluation.scores.predictions import Predictions
from pipelines.evaluation.scores.scoring import Evaluation
from pipelines.evaluation.tables.behind_cells import MOST_CLASSES, ConfusionCells, clip_cells, frame_cells
from pipelines.evaluation.tables.comparison_report import all_notes, cost_points, main_table
from pipelines.files import write_text
from pipelines.pages.media import guessed_link
from pipelines.pages.packing import as_bytes, packed_rows
from pipelines.pages.page import (
    CHART_SCRIPTS,
    CHART_STYLES,
    COMMON_SCRIPTS,
    COMMON_STYLES,
    TIMELINE_SCRIPTS,
    TIMELINE_STYLES,
    Page,
    made_line,
    render,
)
from pipelines.wording import counted

SUFFIXES = (".html", ".htm")
SCRIPTS = (
    *COMMON_SCRIPTS,
    *TIMELINE_SCRIPTS,
    *CHART_SCRIPTS,
    "player.js",
    "confusion.js",
    "evaluation_view.js",
    "evaluation.js",
)
STYLES = (*COMMON_STYLES, *TIMELINE_STYLES, *CHART_STYLES, "evaluation.css")
WORST = 24  # recordings of a model that are listed
MOST_SCORES = 150_000  # letters of packed scores of a model: the worst recordings have a timeline as far as they reach


def check_report_path(path: Path) -> None:
    """Refuse a name that no browser would open as a page; before the work, not after it."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"cannot write the report to {path}: choose a name that ends in .html")


def write_comparison_page(path: Path, comparison: Comparison) -> None:
    """Write the page."""
    check_report_path(path)
    table = main_table(comparison)
    title = f"{comparison.dataset}, {comparison.part}"
    data = {
        "title": title,
        "said": counted(comparison.scored, "recording"),
        "notes": all_notes(comparison),
        "metric": comparison.metric,
        "table": {"columns": list(table.columns), "rows": [list(row) for row in table.rows]},
        "points": [
            {"name": point.name, "macs": int(point.macs), "score": _number(point.score), "family": point.family}
            for point in cost_points(comparison)
        ],
        "models": [_model(row, comparison, path) for row in comparison.rows],
        "made": made_line(),
    }
    write_text(path, render(Page(f"{title} – cotrans evaluate", SCRIPTS, STYLES, data)))


def _model(row: Row, comparison: Comparison, page: Path) -> dict[str, Any]:
    """What is told of a model: of its first seed, where there are several."""
    result = row.first
    predictions, evaluation = result.named, result.evaluation
    names = predictions.classes or tuple(f"class {number}" for number in range(predictions.width))
    cells = _cells(result, names)
    badness = _badness(predictions, evaluation)
    worst = [int(index) for index in np.argsort(-badness, kind="stable")]
    timelines = _timelines(predictions, worst, names, result.hop)
    shown = {*worst[:WORST], *timelines, *(_behind(cells))}
    return {
        "name": row.name,
        "headline": evaluation.headline(),
        "seeds": len(row.results),
        "classes": list(names),
        "hop": result.hop,
        "perClass": _per_class(evaluation),
        "confusion": None if cells is None else _confusion(cells),
        "recordings": {
            str(index): _recording(predictions.videos[index], comparison.media, page, timelines.get(index))
            for index in sorted(shown)
        },
        "worst": [[index, round(1 - float(badness[index]), 4)] for index in worst[:WORST]],
    }


def _cells(result: ModelEvaluation, names: tuple[str, ...]) -> ConfusionCells | None:
    if len(names) > MOST_CLASSES:
        return None
    if result.evaluation.clips is not None:
        return clip_cells(result.predictions, result.evaluation.clips["last"].classes)
    if result.evaluation.detection is not None and result.predictions.classes is not None:
        return frame_cells(result.named, result.evaluation.detection)
    return None


def _behind(cells: ConfusionCells | None) -> set[int]:
    return set() if cells is None else {place.recording for places in cells.behind.values() for place in places}


def _confusion(cells: ConfusionCells) -> dict[str, Any]:
    return {
        "classes": list(cells.classes),
        "unit": cells.unit,
        "counts": cells.counts.tolist(),
        "behind": {
            f"{own},{named}": [[place.recording, place.first, place.frames] for place in places]
            for (own, named), places in cells.behind.items()
        },
    }


def _per_class(evaluation: Evaluation) -> dict[str, Any]:
    """Name, score (None: no positives) and count of each class."""
    if evaluation.detection is not None:
        score = evaluation.detection
        values = score.ap if score.headline == "mAP" else score.cap
        rows = zip(score.classes, values.tolist(), score.positives.tolist(), strict=True)
        return {"title": "AP" if score.headline == "mAP" else "calibrated AP", "unit": "frames", "rows": _scored(rows)}
    assert evaluation.clips is not None  # a model was scored on frames or on clips
    last = evaluation.clips["last"]
    rows = zip(last.classes, last.per_class.tolist(), last.confusion.sum(axis=1).tolist(), strict=True)
    return {"title": "accuracy", "unit": "clips", "rows": _scored(rows)}


def _scored(rows: Any) -> list[list[Any]]:
    return [[name, _number(value), int(count)] for name, value, count in rows]


def _number(value: float) -> float | None:
    return round(value, 5) if np.isfinite(value) else None


def _badness(predictions: Predictions, evaluation: Evaluation) -> NDArray[np.float64]:
    """(recordings,): 1 − how much the model believes in what is true, mean over the frames of each recording."""
    if evaluation.clips is not None:
        last = np.append(predictions.starts()[1:], predictions.frames) - 1
        own = clip_labels(predictions)
        return np.asarray(1 - predictions.scores[last, own], dtype=np.float64)
    truth = predictions.positives(range(predictions.width))
    missed = np.abs(truth - predictions.scores).max(axis=1)  # the class that is most wrong
    sums = np.bincount(predictions.video, weights=missed, minlength=len(predictions.videos))
    counts = np.bincount(predictions.video, minlength=len(predictions.videos))
    return np.asarray(sums / np.maximum(counts, 1), dtype=np.float64)


def _timelines(
    predictions: Predictions, worst: list[int], names: tuple[str, ...], hop: float | None
) -> dict[int, dict[str, Any]]:
    """Scores and truth of recordings, the worst first, as far as the page has room."""
    if hop is None:
        return {}
    timelines: dict[int, dict[str, Any]] = {}
    room = MOST_SCORES
    for index in worst:
        here = predictions.video == index
        scores = predictions.scores[here]
        rows = packed_rows((np.arange(len(scores)) * hop).tolist(), hop, as_bytes(scores))
        room -= len(rows["packed"])
        if room < 0 and timelines:
            break
        timelines[index] = {"rows": rows, "truth": _truth(predictions.select(here), names, hop)}
    return timelines


def _truth(predictions: Predictions, names: tuple[str, ...], hop: float) -> list[list[Any]]:
    """Stretches of each class in one recording."""
    stretches: list[list[Any]] = []
    for column, name in enumerate(names):
        if not predictions.has_label(column).any():
            continue
        first, last = runs(predictions.has_label(column), predictions.video)
        stretches += [
            [round(begin * hop, 3), round((end + 1) * hop, 3), name]
            for begin, end in zip(first.tolist(), last.tolist(), strict=True)
        ]
    return sorted(stretches)


def _recording(name: str, media: Mapping[str, Path], page: Path, timeline: dict[str, Any] | None) -> dict[str, Any]:
    link = guessed_link(media[name], page) if name in media else None
    return {"name": name, "media": None if link is None else link.to_dict(""), "timeline": timeline}
