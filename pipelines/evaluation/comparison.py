"""Several models on one part of a dataset: the call behind `cotrans evaluate`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pipelines.datasets.dataset import ALL
from pipelines.datasets.rows.feature_cache import OnItem
from pipelines.devices import choose_device
from pipelines.errors import CotransError, InputError, UsageError
from pipelines.evaluation.data.contenders import Contender, load_contender
from pipelines.evaluation.data.data_request import DataRequest
from pipelines.evaluation.data.foreign import foreign_recordings
from pipelines.evaluation.data.prepared_model import PreparedModel, prepare_model, with_classes
from pipelines.evaluation.data.scored_data import ScoredData
from pipelines.evaluation.data.training_overlap import called
from pipelines.evaluation.model_evaluation import (
    Cost,
    ModelEvaluation,
    RunModes,
    default_options,
    detection_protocol,
    evaluate_model,
)
from pipelines.evaluation.references import NAME as SINGLE_ROWS
from pipelines.evaluation.references import Reference, row_references
from pipelines.evaluation.scores.baseline import NAME as BASELINE
from pipelines.evaluation.scores.baseline import Baseline, majority_vote_baseline
from pipelines.evaluation.scores.bootstrap import Interval
from pipelines.evaluation.scores.detection import DetectionOptions
from pipelines.evaluation.scores.diagnosis import DiagnosisOptions
from pipelines.evaluation.scores.precision_loss import precision_loss
from pipelines.evaluation.scores.smoothing import Smoothing
from pipelines.evaluation.scores.spotting import THRESHOLD
from pipelines.evaluation.tables.report import mean_and_deviation
from pipelines.features.extraction.engines import Engine
from pipelines.features.extraction.sources import recordings_in
from pipelines.model.continual_model import ContinualModel
from pipelines.model.linear.packing import with_precision
from pipelines.model.precision import Precision
from pipelines.running.agreement import TOLERANCE
from pipelines.running.runner import MODES, Damage, Mode, Speed
from pipelines.shard import WHOLE, Shard
from pipelines.training.fitting.baseline import WHAT_TO_TRY

OnRows = Callable[[str, Mode, int, int], None]  # row of the table, mode, feature rows done, feature rows in all
# A model and the name of the part that is scored -> what runs it.
RunOf = Callable[[PreparedModel, str], RunModes]
# auto: where the training split has its features already, of gtzan and of frames. Extracting them would take the
# longest part.
UseBaseline = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class ComparisonOptions:
    """How models are run and scored; what is None follows from the model."""

    modes: tuple[Mode, ...] = ("chunk",)
    protocol: str | None = None
    window: int | None = None
    future: int | None = None
    smoothing: Smoothing = "off"
    cliff_diving_is_diving: bool = False
    bootstrap: int = 0
    seed: int = 0  # of the resampling
    baseline: UseBaseline = "auto"
    detail: float | None = None  # the precision at which delays and false alarms are counted; None: they are not
    workers: int = 1
    device: str = "auto"
    precision: Precision = "float32"  # of weights; others are compared with float32 in the same run
    foreign: Path | None = None  # recordings of no class, to see how often models of clips say so, and spotters do not
    threshold: float = THRESHOLD  # probability from which on an event counts as spotted


@dataclass(frozen=True)
class Row:
    """One model, or one model trained with several seeds. Scores are fractions."""

    name: str
    files: tuple[Path, ...]
    results: tuple[ModelEvaluation, ...]  # one for each file

    @property
    def first(self) -> ModelEvaluation:
        return self.results[0]

    @property
    def values(self) -> tuple[float, ...]:
        """The score of each seed."""
        return tuple(result.evaluation.value for result in self.results)

    @property
    def score(self) -> tuple[float, float]:
        """Mean and deviation over the seeds."""
        return mean_and_deviation(self.values)

    @property
    def mean_pooling(self) -> tuple[float, float] | None:
        """Accuracy of clips by the mean over the stream: mean and deviation over the seeds."""
        clips = [result.evaluation.clips for result in self.results]
        pooled = [poolings["mean"].accuracy for poolings in clips if poolings is not None]
        return mean_and_deviation(pooled) if all(clips) else None

    @property
    def interval(self) -> Interval | None:
        """Over recordings; of a single model only: seeds have a deviation."""
        if len(self.results) > 1:
            return None
        evaluation = self.first.evaluation
        if evaluation.detection is not None:
            return evaluation.detection.intervals.get(evaluation.detection.headline)
        return evaluation.clips["last"].interval if evaluation.clips is not None else None

    @property
    def cost(self) -> Cost:
        return self.first.cost

    @property
    def step(self) -> Speed:
        return self.first.step


@dataclass(frozen=True)
class Comparison:
    """The table, before it is written down."""

    dataset: str
    part: str
    division: Mapping[str, Any]  # options of the dataset, as it was opened
    metric: str  # accuracy, mAP or mcAP
    items: int  # of the part, damaged ones included
    rows: tuple[Row, ...]
    baseline: Baseline | None
    references: tuple[Reference, ...]  # classifiers without memory, of frames
    damaged: tuple[Damage, ...]  # items that no model, or not every model, was scored on
    notes: tuple[str, ...]
    media: Mapping[str, Path] = field(default_factory=dict)  # the files of recordings, where there are any

    @property
    def scored(self) -> int:
        """Items that every model was scored on."""
        return self.items - len(self.damaged)


def compare_models(
    contenders: Sequence[Contender],
    request: DataRequest,
    options: ComparisonOptions | None = None,
    on_rows: OnRows | None = None,
    on_item: OnItem | None = None,
    run_of: RunOf | None = None,
    engine: Engine | None = None,
) -> Comparison:
    """Score every contender on the same recordings, and say what each costs.

    run_of: who runs a model, if not this process. engine: who extracts features, if not this machine.
    """
    options = options or ComparisonOptions()
    device = choose_device(options.device)  # a GPU that is not there is said before anything is read
    if options.foreign is not None:  # and so is a folder
        recordings_in(options.foreign, "--foreign")
    data = open_scored(contenders, request, options, engine=engine)
    notes = [*data.notes, *data.dataset.problems, *(note for contender in contenders for note in contender.notes)]
    damaged: dict[str, Damage] = {}
    rows: list[Row] = []
    dataset = data.dataset
    for contender in contenders:
        results = []
        for path in contender.files:
            ready = prepare_model(path, data, device, on_item)
            dataset = ready.dataset
            result = _evaluated(contender.name, ready, data.part, options, on_rows, run_of)
            results.append(result)
            damaged.update({damage.name: damage for damage in (*ready.left_out, *result.damaged)})
            notes += ready.notes
        rows.append(Row(contender.name, contender.files, tuple(results)))
    baseline, remark = _baseline(data, contenders, options, on_item)
    references, remarks = _references(data, contenders[0].files[0], rows[0].first, options, on_item)
    evaluation = rows[0].first.evaluation
    return Comparison(
        dataset=request.source.dataset,
        part=data.part,
        division=data.options,
        metric="accuracy" if evaluation.detection is None else evaluation.detection.headline,
        items=data.items,
        rows=tuple(rows),
        baseline=baseline,
        references=references,
        damaged=tuple(damaged.values()),
        notes=tuple(dict.fromkeys([*notes, *remark, *remarks, *_below(rows, references)])),
        media={item.name: item.media for item in dataset.split(data.part) if item.media is not None},
    )


def scoring_options(
    options: ComparisonOptions, defaults: DetectionOptions | None = None, hop: float | None = None
) -> DetectionOptions:
    """The options of scoring; defaults: what follows from the model, where there is one. hop: seconds of a frame."""
    defaults = defaults or DetectionOptions()
    return DetectionOptions(
        window=defaults.window if options.window is None else options.window,
        future=defaults.future if options.future is None else options.future,
        smoothing=options.smoothing,
        cliff_diving_is_diving=options.cliff_diving_is_diving,
        bootstrap=options.bootstrap,
        seed=options.seed,
        diagnosis=None if options.detail is None else DiagnosisOptions(options.detail, hop),
    )


def parse_modes(text: str) -> tuple[Mode, ...]:
    """A mode by its name, or all of them."""
    if text == "all":
        return MODES
    for mode in MODES:
        if text == mode:
            return (mode,)
    raise UsageError(f"unknown mode '{text}': choose from {', '.join(MODES)}, all")


def open_scored(
    contenders: Sequence[Contender],
    request: DataRequest,
    options: ComparisonOptions,
    shard: Shard = WHOLE,
    engine: Engine | None = None,
) -> ScoredData:
    """The data; what is wrong with names and options is told before the work, not after it.

    shard: the share whose features are extracted first, where others extract theirs at the same time.
    """
    data = ScoredData(request, contenders[0].files[0], shard, engine)
    _check_baseline(data.part, options)
    detection_protocol(data.dataset, options.protocol)
    return data


def _evaluated(
    name: str,
    ready: PreparedModel,
    part: str,
    options: ComparisonOptions,
    on_rows: OnRows | None,
    run_of: RunOf | None,
) -> ModelEvaluation:
    checkpoint = ready.checkpoint
    scoring = scoring_options(options, default_options(checkpoint.model), ready.dataset.hop)

    def evaluated(model: ContinualModel, tolerance: float) -> ModelEvaluation:
        return evaluate_model(
            model,
            checkpoint.class_names,
            ready.dataset,
            part,
            options.modes,
            options.protocol,
            scoring,
            tolerance,
            workers=options.workers,
            on_progress=None if on_rows is None else lambda mode, done, total: on_rows(name, mode, done, total),
            score_kind=checkpoint.score_kind,
            rejection=checkpoint.rejection,
            least=checkpoint.least,
            order=checkpoint.order,
            foreign=[] if options.foreign is None else foreign_recordings(options.foreign, checkpoint.features),
            threshold=options.threshold,
            run=None if run_of is None else run_of(ready, part),
        )

    try:
        packed_model = with_precision(checkpoint.model, options.precision)
        exact = evaluated(checkpoint.model, TOLERANCE)
        if options.precision == "float32":
            return exact
        # Modes round in different places; that they are the same model has been shown in float32.
        packed = evaluated(packed_model, math.inf)
        loss = precision_loss(options.precision, exact.evaluation.value, packed.predictions, exact.predictions)
        return replace(packed, cost=exact.cost, loss=loss)
    except CotransError as error:
        raise error.located(called(ready.path)) from error


def _check_baseline(part: str, options: ComparisonOptions) -> None:
    if options.baseline == "on" and part in ("train", ALL):
        raise UsageError(
            "--baseline: it is fitted to the training recordings, which are among those to be scored: leave "
            f"--on {part} out, or --baseline"
        )


def _baseline(
    data: ScoredData, contenders: Sequence[Contender], options: ComparisonOptions, on_item: OnItem | None
) -> tuple[Baseline | None, list[str]]:
    """The majority vote, on the features of the first model."""
    if (
        options.baseline == "off"
        or data.dataset.kind == "frames"
        or (options.baseline == "auto" and data.dataset.name != "gtzan")
    ):
        return None, []
    if data.part in ("train", ALL):
        return None, [f"no {BASELINE}: it is fitted to the training clips, which are scored here"]
    missing = "train" not in data.dataset.splits or not data.has_features
    if options.baseline == "auto" and missing:
        return None, [f"no {BASELINE}: it is fitted to the training clips, whose features --baseline extracts too"]
    path = contenders[0].files[0]
    parts = tuple(dict.fromkeys(("train", data.part)))
    scored = data.for_model(load_contender(path), path, parts, on_item)
    baseline = majority_vote_baseline(scored.dataset, data.part, options.bootstrap, options.seed)
    return baseline, [f"{BASELINE}: softmax regression on {baseline.fitted_rows:,} single rows of the training clips"]


def _references(
    data: ScoredData, path: Path, result: ModelEvaluation, options: ComparisonOptions, on_item: OnItem | None
) -> tuple[tuple[Reference, ...], list[str]]:
    """Classifiers of single rows, on the features of the first model."""
    if options.baseline == "off" or data.dataset.kind == "clips" or data.part in ("train", ALL):
        return (), []
    if options.baseline == "auto" and ("train" not in data.dataset.splits or not data.has_features):
        return (), []
    checkpoint = load_contender(path)
    parts = tuple(dict.fromkeys(("train", data.part)))
    try:
        scored = data.for_model(checkpoint, path, parts, on_item)
        references = row_references(
            with_classes(scored.dataset, checkpoint),
            data.part,
            options.protocol,
            result.options,
            checkpoint.score_kind,
            frozenset(result.predictions.videos),
        )
    except InputError as error:
        if options.baseline == "on":
            raise
        return (), [f"no scores of {SINGLE_ROWS}: {error}"]
    return references, [f"{SINGLE_ROWS}: no memory, fitted to {references[0].fitted_rows:,} rows of the training part"]


def _below(rows: Sequence[Row], references: Sequence[Reference]) -> list[str]:
    """Who is worse than no memory at all."""
    if not references:
        return []
    best = max(references, key=lambda reference: reference.evaluation.value)
    return [
        f"{row.name} is below {best.name} ({100 * best.evaluation.value:.2f} %), so its memory is worth nothing yet: "
        f"train it again with {WHAT_TO_TRY}"
        for row in rows
        if row.score[0] < best.evaluation.value
    ]
