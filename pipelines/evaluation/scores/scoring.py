"""Score predictions as their dataset's papers do: the one call behind `cotrans evaluate --predictions`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.published.gtzan import GENRES
from pipelines.errors import InputError, UsageError
from pipelines.evaluation.scores.bootstrap import Interval
from pipelines.evaluation.scores.classification import (
    ClassificationScore,
    Pooling,
    confusion_matrix,
    score_clips,
)
from pipelines.evaluation.scores.detection import DetectionOptions, DetectionScore, score_detection, scored_frames
from pipelines.evaluation.scores.honesty import Honesty
from pipelines.evaluation.scores.ordered_events import EventScore
from pipelines.evaluation.scores.predictions import Predictions
from pipelines.evaluation.scores.protocols import PROTOCOLS, Protocol, folder_protocol, protocol_for
from pipelines.evaluation.tables.report import (
    Table,
    anticipation_table,
    classification_table,
    classification_to_dict,
    detection_table,
    detection_to_dict,
    diagnosis_table,
    event_table,
    stage_table,
)
from pipelines.plots import plot_confusion
from pipelines.wording import counted

DATASETS = ("gtzan", "thumos14", "tvseries", "folder")


@dataclass(frozen=True)
class Evaluation:
    """What the frames of a dataset, the clips, or both are worth."""

    dataset: str
    detection: DetectionScore | None = None
    clips: dict[Pooling, ClassificationScore] | None = None
    events: EventScore | None = None  # of recordings that run through the classes in order
    honesty: Honesty | None = None  # of a model on clips

    def to_dict(self) -> dict[str, Any]:
        """Plain data with the headline's keys at the top; with both kinds, the clips under `clips`."""
        result: dict[str, Any] = {"dataset": self.dataset}
        if self.detection is not None:
            result.update(detection_to_dict(self.detection))
            if self.clips is not None:
                result["clips"] = classification_to_dict(self.clips)
        elif self.clips is not None:
            result.update(classification_to_dict(self.clips))
        if self.events is not None:
            result["events"] = self.events.to_dict()
        if self.honesty is not None:
            result["honesty"] = self.honesty.to_dict()
        return result

    @property
    def value(self) -> float:
        """The number that stands for the result: mAP, mcAP or accuracy at the last token."""
        if self.detection is not None:
            return self.detection.value
        return self.clips["last"].accuracy if self.clips is not None else float("nan")

    def tables(self) -> list[tuple[str, Table]]:
        """Titles and tables, the one per class first."""
        tables: list[tuple[str, Table | None]] = []
        if self.detection is not None:
            tables = [
                (f"{self.dataset}, per frame (%)", detection_table(self.detection)),
                ("Per tenth of an action, early to late (%)", stage_table(self.detection)),
                (self._diagnosis_title(), diagnosis_table(self.detection)),
                ("Anticipation (%)", anticipation_table(self.detection)),
            ]
        if self.clips is not None:
            tables.append((f"{self.dataset}, accuracy per clip (%)", classification_table(self.clips)))
        if self.events is not None:
            tables.append(("Events found in time (%)", event_table(self.events)))
        return [(title, table) for title, table in tables if table is not None]

    def _diagnosis_title(self) -> str:
        diagnosis = None if self.detection is None else self.detection.diagnosis
        return "" if diagnosis is None else f"At a precision of {100 * diagnosis.precision:.0f} % of the frames named"

    def headline(self) -> str:
        """The result in one line."""
        parts = []
        if self.events is not None:
            parts.append(
                f"PCE {100 * self.events.pce:.1f} % ({len(self.events.events)} events of {self.events.recordings:,} "
                f"recordings), frame accuracy {100 * self.events.frame_accuracy:.1f} %, "
                f"{100 * self.events.in_order:.1f} % of the recordings in order"
            )
        if self.detection is not None:
            score = self.detection
            parts.append(
                f"{score.headline} {100 * score.value:.2f} %{_interval(score.intervals.get(score.headline))} over "
                f"{int((score.positives > 0).sum())} classes; {score.frames:,} frames of "
                f"{counted(score.videos, 'recording')} (protocol {score.protocol}: "
                f"{score.trimmed:,} frames trimmed, {score.ambiguous:,} ambiguous)"
            )
        if self.clips is not None:
            last = self.clips["last"]
            parts.append(
                f"accuracy {100 * last.accuracy:.2f} %{_interval(last.interval)} at the last token, "
                f"{100 * self.clips['mean'].accuracy:.2f} % by the mean, "
                f"{100 * self.clips['vote'].accuracy:.2f} % by the vote of its tokens; {last.clips:,} clips"
            )
        if self.honesty is not None:
            parts.append(self.honesty.headline())
        return "; ".join(parts)

    @property
    def notes(self) -> tuple[str, ...]:
        notes = self.detection.notes if self.detection is not None else ()
        return notes + (next(iter(self.clips.values())).notes if self.clips else ())


def score_predictions(
    predictions: Predictions, dataset: str, protocol: str | None = None, options: DetectionOptions | None = None
) -> Evaluation:
    """Score by the rules of `dataset`: clips of gtzan, frames of thumos14 and tvseries, both of folder."""
    options = options or DetectionOptions()
    if dataset not in DATASETS:
        raise UsageError(f"unknown dataset '{dataset}': choose from {', '.join(DATASETS)}")
    if dataset in PROTOCOLS:
        rules = protocol_for(dataset, protocol)
        return Evaluation(dataset, detection=score_detection(predictions, rules, options))
    if protocol is not None:
        raise UsageError(f"dataset '{dataset}' has one way of scoring: leave --protocol out")
    names = class_names(predictions, dataset)
    if dataset == "gtzan":
        return Evaluation(dataset, clips=score_clips(predictions, names, options.bootstrap > 0))
    clips = None
    if has_one_label_per_clip(predictions):
        clips = score_clips(predictions, names, options.bootstrap > 0)
    return Evaluation(dataset, score_detection(predictions, folder_protocol(names), options), clips)


def write_confusion(path: Path, predictions: Predictions, evaluation: Evaluation, options: DetectionOptions) -> None:
    """Draw who is taken for whom: clips where there are clips, frames otherwise."""
    if evaluation.clips is not None:
        best = evaluation.clips["last"]
        counts, names, what = best.confusion, best.classes, f"clips, {100 * best.accuracy:.1f} % right"
    else:
        protocol = (
            protocol_for(evaluation.dataset, evaluation.detection.protocol)
            if evaluation.detection is not None and evaluation.dataset in PROTOCOLS
            else folder_protocol(class_names(predictions, evaluation.dataset))
        )
        counts, names = frame_confusion(predictions, protocol, options)
        what = f"frames, {100 * float(counts.trace() / counts.sum()):.1f} % right"
    plot_confusion(path, counts, names, f"{evaluation.dataset}: {what}")


def class_names(predictions: Predictions, dataset: str) -> tuple[str, ...]:
    """Names in the file, else the dataset's, else numbers."""
    if dataset == "gtzan":
        names = predictions.classes or GENRES
        if sorted(name.casefold() for name in names) != sorted(GENRES):
            raise InputError(f"class names do not match gtzan: {', '.join(names)}; they must be its ten genres")
        return names
    return predictions.classes or tuple(f"class {number}" for number in range(predictions.width))


def has_one_label_per_clip(predictions: Predictions) -> bool:
    """True when no label changes within a clip, so that clips can be scored as wholes."""
    label = predictions.label
    if label.ndim == 2:
        if not (label.sum(axis=1) == 1).all():
            return False
        label = label.argmax(axis=1)
    return bool((label == label[predictions.starts()][predictions.video]).all())


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f" [{100 * interval.low:.2f}, {100 * interval.high:.2f}]"


def frame_confusion(
    predictions: Predictions, protocol: Protocol, options: DetectionOptions | None = None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Frames by true and named class, (classes, classes), and the class names, background included."""
    chosen = scored_frames(predictions, protocol, options or DetectionOptions())
    frames = chosen.predictions
    columns = [
        (name, column)
        for name, column in sorted(chosen.column.items(), key=lambda item: item[1])
        if name != protocol.ambiguous and column < frames.width
    ]
    truth = frames.positives([column for _, column in columns])
    if not (truth.sum(axis=1) == 1).all():
        raise InputError("a confusion matrix needs one class per frame, but some frames have several or none")
    named = frames.scores[:, [column for _, column in columns]].argmax(axis=1)
    return confusion_matrix(np.argmax(truth, axis=1), named, len(columns)), tuple(name for name, _ in columns)
