"""Per-frame detection scores: predictions and a protocol in, mAP and mcAP out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError, InputError
from pipelines.evaluation.scores.bootstrap import Interval, precision_intervals
from pipelines.evaluation.scores.diagnosis import Diagnosis, DiagnosisOptions, diagnose
from pipelines.evaluation.scores.predictions import Predictions, positives_of
from pipelines.evaluation.scores.protocols import OAD_FUTURE, OAD_WINDOW, Headline, Protocol
from pipelines.evaluation.scores.smoothing import Smoothing, smooth_scores
from pipelines.evaluation.scores.stages import stage_scores
from pipelines.metrics.precision import Bools, Floats, PrecisionScores, mean_of_present, precision_scores

CLIFF_DIVING, DIVING = "CliffDiving", "Diving"


@dataclass(frozen=True)
class DetectionOptions:
    """What may vary within a protocol."""

    window: int = OAD_WINDOW  # n: a protocol that trims leaves the first n − 1 frames of a video out
    future: int = OAD_FUTURE  # and the last `future` + 1
    smoothing: Smoothing = "off"
    cliff_diving_is_diving: bool = False  # THUMOS14: a frame's diving score is at least its cliff diving score
    bootstrap: int = 0  # replicates; 0: no interval
    seed: int = 0
    diagnosis: DiagnosisOptions | None = None  # also delays and false alarms, and every tenth of an action

    def __post_init__(self) -> None:
        if self.window < 1 or self.future < 0 or self.bootstrap < 0:
            raise ConfigurationError(
                f"window {self.window} must be at least 1, and neither future {self.future} "
                f"nor bootstrap {self.bootstrap} negative"
            )


@dataclass(frozen=True)
class HorizonScore:
    """Scores of anticipation `ahead` frames before the fact."""

    ahead: int
    frames: int
    mAP: float  # noqa: N815
    mcAP: float  # noqa: N815


@dataclass(frozen=True)
class DetectionScore:
    """Result of a protocol; per-class arrays are in the order of `classes`, NaN for a class without
    positives.
    """

    protocol: str
    headline: Headline
    classes: tuple[str, ...]
    ap: NDArray[np.float64]  # (classes,)
    cap: NDArray[np.float64]  # (classes,)
    positives: NDArray[np.int64]  # (classes,) frames
    frames: int  # scored
    trimmed: int  # frames left out at the ends of videos
    ambiguous: int  # frames left out because nobody can say what they are
    videos: int
    notes: tuple[str, ...] = ()
    stage_ap: NDArray[np.float64] | None = None  # (tenths of an action, classes)
    stage_cap: NDArray[np.float64] | None = None
    anticipation: tuple[HorizonScore, ...] = ()
    intervals: dict[Headline, Interval] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None

    @property
    def mAP(self) -> float:  # noqa: N802 - the name that everybody uses
        return mean_of_present(self.ap)

    @property
    def mcAP(self) -> float:  # noqa: N802
        return mean_of_present(self.cap)

    @property
    def value(self) -> float:
        """The number that the dataset's papers print."""
        return self.mAP if self.headline == "mAP" else self.mcAP


@dataclass(frozen=True)
class ScoredFrames:
    """The frames that a protocol counts, after its processing."""

    predictions: Predictions
    column: dict[str, int]  # of each class name
    kept: Bools  # (all frames,) False where the protocol trims
    ambiguous: int  # frames dropped because of their label
    notes: tuple[str, ...]


def score_detection(
    predictions: Predictions, protocol: Protocol, options: DetectionOptions | None = None
) -> DetectionScore:
    """Score pooled frames by a protocol."""
    options = options or DetectionOptions()
    chosen = scored_frames(predictions, protocol, options)
    clear = chosen.predictions
    columns = [chosen.column[name] for name in protocol.scored]
    scores, positives = clear.scores[:, columns], clear.positives(columns)
    result = precision_scores(scores, positives)
    wanted = options.diagnosis
    in_stages = protocol.stages or wanted is not None
    stage_ap, stage_cap = stage_scores(scores, positives, clear.video) if in_stages else (None, None)
    intervals: dict[Headline, Interval] = {}
    single = len(np.unique(clear.video)) < 2
    if options.bootstrap and not single:
        of_map, of_mcap = precision_intervals(scores, positives, clear.video, options.bootstrap, options.seed)
        intervals = {"mAP": of_map, "mcAP": of_mcap}
    return DetectionScore(
        protocol=protocol.name,
        headline=protocol.headline,
        classes=protocol.scored,
        ap=result.ap,
        cap=result.cap,
        positives=result.positives,
        frames=clear.frames,
        trimmed=int((~chosen.kept).sum()),
        ambiguous=chosen.ambiguous,
        videos=len(np.unique(clear.video)),
        notes=(*chosen.notes, *_notes_on_classes(result, protocol), *_note_on_interval(options, single)),
        stage_ap=stage_ap,
        stage_cap=stage_cap,
        anticipation=_score_anticipation(predictions, protocol, chosen),
        intervals=intervals,
        diagnosis=diagnose(scores, positives, clear.video, protocol.scored, wanted) if wanted is not None else None,
    )


def scored_frames(predictions: Predictions, protocol: Protocol, options: DetectionOptions) -> ScoredFrames:
    """Trim, smooth, merge classes and drop ambiguous frames, in the order of the official scripts."""
    column = match_columns(predictions, protocol)
    notes: list[str] = []
    kept = np.ones(predictions.frames, dtype=np.bool_)
    if protocol.trims:
        kept = _untrimmed(predictions, options)
        ends = f"the first {options.window - 1} and the last {options.future + 1} frames of a video"
        if not kept.any():
            raise InputError(f"no frame is left: protocol {protocol.name} leaves {ends} out, and no video is longer")
        short = len(predictions.videos) - len(np.unique(predictions.video[kept]))
        if short:
            notes.append(f"{short} of {len(predictions.videos)} videos have nothing between {ends}")
    trimmed = predictions.select(kept)
    trimmed = replace(trimmed, scores=_processed(trimmed, protocol, column, options, notes))
    unclear = _is_ambiguous(trimmed, protocol, column)
    if unclear.all():
        raise InputError(f"every frame is of class {protocol.ambiguous}: there is nothing to score")
    return ScoredFrames(trimmed.select(~unclear), column, kept, int(unclear.sum()), tuple(notes))


def match_columns(predictions: Predictions, protocol: Protocol) -> dict[str, int]:
    """Column (and label number) of each class name, or an error when names, widths or labels do not fit."""
    names = predictions.classes or next(
        (layout for layout in protocol.layouts if len(layout) == predictions.width), None
    )
    if names is None:
        widths = " or ".join(str(len(layout)) for layout in protocol.layouts)
        raise InputError(
            f"the scores have {predictions.width} columns, but protocol {protocol.name} needs {widths}: "
            "one per class, background first; name other columns with an array 'classes'"
        )
    known = {name.casefold(): name for layout in protocol.layouts for name in layout}
    foreign = [name for name in names if name.casefold() not in known]
    if foreign:
        raise InputError(
            f"class names do not match protocol {protocol.name}: unknown {', '.join(foreign[:3])}"
            f"{' …' if len(foreign) > 3 else ''}"
        )
    column = {known[name.casefold()]: index for index, name in enumerate(names)}
    missing = [name for name in protocol.scored if name not in column]
    if missing:
        raise InputError(f"protocol {protocol.name} needs scores of class {missing[0]}, which have no column")
    if protocol.ambiguous is not None:
        # Without a column of scores the ambiguous class still has a label: the number after the last one.
        column.setdefault(protocol.ambiguous, len(names))
    _check_label_range(predictions, protocol, max(len(column), len(protocol.layouts[0])))
    return column


def _check_label_range(predictions: Predictions, protocol: Protocol, classes: int) -> None:
    label = predictions.label
    if label.ndim == 2:
        if not predictions.width <= label.shape[1] <= classes:
            raise InputError(
                f"'label' has {label.shape[1]} columns and 'scores' {predictions.width}: "
                f"protocol {protocol.name} knows {classes} classes"
            )
    elif label.max() >= classes:
        row = int(np.argmax(label >= classes))
        raise InputError(
            f"label {int(label[row])} in row {row} is out of range: protocol {protocol.name} has classes "
            f"0 to {classes - 1}"
        )


def _untrimmed(predictions: Predictions, options: DetectionOptions) -> Bools:
    """Frames n−1 … T−future−2 of each video, (frames,)."""
    starts = predictions.starts()
    lengths = np.diff(np.append(starts, predictions.frames))
    position = np.arange(predictions.frames) - starts[predictions.video]
    remaining = lengths[predictions.video] - position  # 1 at the last frame
    return np.asarray((position >= options.window - 1) & (remaining > options.future + 1))


def _processed(
    kept: Predictions, protocol: Protocol, column: dict[str, int], options: DetectionOptions, notes: list[str]
) -> Floats:
    """Scores (frames, classes) after smoothing, cliff diving as diving, and closing over some classes."""
    scores = smooth_scores(kept.scores, kept.video, options.smoothing)
    if options.cliff_diving_is_diving:
        if CLIFF_DIVING not in column:
            raise ConfigurationError(f"counting {CLIFF_DIVING} as {DIVING} is for thumos14")
        scores = scores.copy()
        scores[:, column[DIVING]] = np.maximum(scores[:, column[DIVING]], scores[:, column[CLIFF_DIVING]])
    if protocol.closed is not None:
        inside = [column[name] for name in protocol.closed if name in column]
        if len(inside) < kept.width:
            if not _are_probabilities(scores):
                notes.append("the scores are not probabilities, so they are ranked as they are")
            else:
                share = scores[:, inside].sum(axis=1, keepdims=True)
                scores = scores / np.where(share > 0, share, 1)
    return scores


def _are_probabilities(scores: Floats) -> bool:
    return bool(scores.min() >= 0 and np.allclose(scores.sum(axis=1), 1.0, atol=1e-3))


def _is_ambiguous(predictions: Predictions, protocol: Protocol, column: dict[str, int]) -> Bools:
    if protocol.ambiguous is None:
        return np.zeros(predictions.frames, dtype=np.bool_)
    return predictions.has_label(column[protocol.ambiguous])


def _note_on_interval(options: DetectionOptions, single: bool) -> list[str]:
    return (
        ["one recording: no confidence interval, since only recordings are independent"]
        if (options.bootstrap and single)
        else []
    )


def _notes_on_classes(result: PrecisionScores, protocol: Protocol) -> list[str]:
    absent = [name for name, count in zip(protocol.scored, result.positives, strict=True) if count == 0]
    if len(absent) == len(protocol.scored):
        raise InputError("no frame has a label of any scored class: is 'label' right, and the split not empty?")
    if not absent:
        return []
    left = len(protocol.scored) - len(absent)
    return [f"no positive frame of {', '.join(absent)}: left out of the mean, which is over {left} classes"]


def _score_anticipation(predictions: Predictions, protocol: Protocol, chosen: ScoredFrames) -> tuple[HorizonScore, ...]:
    """Scores of row t for the frames t+1, t+2, … of the same video.

    A protocol that trims follows OadTR: rows whose newest frame is ambiguous are dropped, an ambiguous
    target counts as nothing. The others follow LSTR: rows with an ambiguous target are dropped.
    """
    if predictions.anticipation is None:
        return ()
    scored = [chosen.column[name] for name in protocol.scored]
    unclear = _is_ambiguous(predictions, protocol, chosen.column)
    results = []
    for horizon in range(predictions.anticipation.shape[1]):
        ahead = horizon + 1
        row = np.arange(max(predictions.frames - ahead, 0))
        usable = (predictions.video[row] == predictions.video[row + ahead]) & chosen.kept[row]
        usable &= ~(unclear[row] if protocol.trims else unclear[row + ahead])
        row = row[usable]
        if len(row) == 0:
            raise InputError(f"no video is long enough to score anticipation {ahead} frames ahead")
        result = precision_scores(
            predictions.anticipation[row, horizon][:, scored],
            positives_of(predictions.label[row + ahead], scored),
        )
        results.append(HorizonScore(ahead=ahead, frames=len(row), mAP=result.mean_ap, mcAP=result.mean_cap))
    return tuple(results)
