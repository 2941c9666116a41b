"""Several models on one part of a dataset: the call behind `cotrans evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pipelines.checkpoints.checkpoint import Checkpoint, default_class_names
from pipelines.datasets.dataset import ALL, Dataset
from pipelines.datasets.feature_cache import OnItem
from pipelines.devices import choose_device
from pipelines.errors import CotransError, UsageError
from pipelines.evaluation.data.contenders import Contender, load_contender
from pipelines.evaluation.data.data_request import DataRequest
from pipelines.evaluation.data.foreign import foreign_recordings
from pipelines.evaluation.data.scored_data import ScoredData
from pipelines.evaluation.data.training_overlap import seen_in_training
from pipelines.evaluation.model_evaluation import (
    Cost,
    ModelEvaluation,
    default_options,
    detection_protocol,
    evaluate_model,
)
from pipelines.evaluation.scores.baseline import NAME as BASELINE
from pipelines.evaluation.scores.baseline import Baseline, majority_vote_baseline
from pipelines.evaluation.scores.bootstrap import Interval
from pipelines.evaluation.scores.detection import DetectionOptions
from pipelines.evaluation.scores.smoothing import Smoothing
from pipelines.evaluation.tables.report import mean_and_deviation
from pipelines.running.runner import MODES, Damage, Mode, Speed

OnRows = Callable[[str, Mode, int, int], None]  # row of the table, mode, feature rows done, feature rows in all
# auto: where the training split has its features already, of gtzan. Extracting them would take the longest part.
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
    workers: int = 1
    device: str = "auto"
    foreign: Path | None = None  # recordings of no class, to see how often models of clips say so


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
        return mean_and_deviation([one["mean"].accuracy for one in clips if one is not None]) if all(clips) else None

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
    hop: float | None
    rows: tuple[Row, ...]
    baseline: Baseline | None
    damaged: tuple[Damage, ...]  # items that no model, or not every model, was scored on
    notes: tuple[str, ...]


def compare_models(
    contenders: Sequence[Contender],
    request: DataRequest,
    options: ComparisonOptions | None = None,
    on_rows: OnRows | None = None,
    on_item: OnItem | None = None,
) -> Comparison:
    """Score every contender on the same recordings, and say what each costs."""
    options = options or ComparisonOptions()
    device = choose_device(options.device)
    data = ScoredData(request, contenders[0].files[0])
    _check_baseline(data.part, options)
    detection_protocol(data.dataset, options.protocol)  # a wrong name is told before the work, not after it
    notes = [*data.notes, *data.dataset.problems, *(note for contender in contenders for note in contender.notes)]
    damaged: dict[str, Damage] = {}
    rows: list[Row] = []
    dataset = data.dataset
    for contender in contenders:
        results = []
        for path in contender.files:
            checkpoint, names_note = _named(load_contender(path), path, data.dataset)
            part = data.for_model(checkpoint, path, on_item=on_item)
            dataset = _with_classes(_with_hop(part.dataset, checkpoint), checkpoint)
            checkpoint.model.to(device)
            seen = _seen(path, data)
            result = _evaluated(contender.name, path, checkpoint, dataset, data.part, options, on_rows)
            results.append(result)
            damaged.update({damage.name: damage for damage in (*part.left_out, *result.damaged)})
            notes += [*part.notes, *names_note, *([seen] if seen else [])]
        rows.append(Row(contender.name, contender.files, tuple(results)))
    baseline, remark = _baseline(data, contenders, options, on_item)
    evaluation = rows[0].first.evaluation
    return Comparison(
        dataset=request.source.dataset,
        part=data.part,
        division=data.options,
        metric="accuracy" if evaluation.detection is None else evaluation.detection.headline,
        items=data.items,
        hop=dataset.hop,
        rows=tuple(rows),
        baseline=baseline,
        damaged=tuple(damaged.values()),
        notes=tuple(dict.fromkeys([*notes, *remark])),
    )


def scoring_options(options: ComparisonOptions, defaults: DetectionOptions | None = None) -> DetectionOptions:
    """The options of scoring; defaults: what follows from the model, where there is one."""
    defaults = defaults or DetectionOptions()
    return DetectionOptions(
        window=defaults.window if options.window is None else options.window,
        future=defaults.future if options.future is None else options.future,
        smoothing=options.smoothing,
        cliff_diving_is_diving=options.cliff_diving_is_diving,
        bootstrap=options.bootstrap,
        seed=options.seed,
    )


def parse_modes(text: str) -> tuple[Mode, ...]:
    """A mode by its name, or all of them."""
    if text == "all":
        return MODES
    for mode in MODES:
        if text == mode:
            return (mode,)
    raise UsageError(f"unknown mode '{text}': choose from {', '.join(MODES)}, all")


def _evaluated(
    name: str,
    path: Path,
    checkpoint: Checkpoint,
    dataset: Dataset,
    part: str,
    options: ComparisonOptions,
    on_rows: OnRows | None,
) -> ModelEvaluation:
    scoring = scoring_options(options, default_options(checkpoint.model))
    try:
        return evaluate_model(
            checkpoint.model,
            checkpoint.class_names,
            dataset,
            part,
            options.modes,
            options.protocol,
            scoring,
            workers=options.workers,
            on_progress=None if on_rows is None else lambda mode, done, total: on_rows(name, mode, done, total),
            score_kind=checkpoint.score_kind,
            rejection=checkpoint.rejection,
            foreign=[] if options.foreign is None else foreign_recordings(options.foreign, checkpoint.features),
        )
    except CotransError as error:
        raise error.located(str(path)) from error


def _named(checkpoint: Checkpoint, path: Path, dataset: Dataset) -> tuple[Checkpoint, tuple[str, ...]]:
    """A model that does not name its classes takes the dataset's names, in their order."""
    classes = len(checkpoint.class_names)
    unnamed = checkpoint.class_names == default_class_names(classes)
    if not unnamed or classes != len(dataset.class_names) or dataset.class_names == checkpoint.class_names:
        return checkpoint, ()
    note = f"{path} does not name its classes: they are taken to be those of {dataset.name}, in the same order"
    return replace(checkpoint, class_names=dataset.class_names), (note,)


def _with_classes(dataset: Dataset, checkpoint: Checkpoint) -> Dataset:
    """A folder that holds some of the model's classes, or all in another order, is scored in the model's order."""
    if dataset.name != "folder" or not set(dataset.class_names) <= set(checkpoint.class_names):
        return dataset
    return dataset.with_classes(checkpoint.class_names)


def _with_hop(dataset: Dataset, checkpoint: Checkpoint) -> Dataset:
    """Feature files of others do not say their rate; the model's own specification may."""
    if dataset.hop is not None or checkpoint.features is None:
        return dataset
    return replace(dataset, hop=checkpoint.features.hop)


def _seen(path: Path, data: ScoredData) -> str | None:
    """A remark where a model may have seen what it is scored on."""
    if data.other_data:
        return None  # said already, and it cannot be both
    return seen_in_training(path, data.dataset.name, data.dataset.root, data.part, data.options)


def _check_baseline(part: str, options: ComparisonOptions) -> None:
    if options.baseline == "on" and part in ("train", ALL):
        raise UsageError(
            f"--baseline: the {BASELINE} is fitted to the training clips, which are among those to be scored: leave "
            f"--on {part} out, or --baseline"
        )


def _baseline(
    data: ScoredData, contenders: Sequence[Contender], options: ComparisonOptions, on_item: OnItem | None
) -> tuple[Baseline | None, list[str]]:
    """The majority vote, on the features of the first model."""
    if options.baseline == "off" or (options.baseline == "auto" and data.dataset.name != "gtzan"):
        return None, []
    if data.part in ("train", ALL):
        return None, [f"no {BASELINE}: it is fitted to the training clips, which are scored here"]
    missing = "train" not in data.dataset.splits or not data.has_features
    if options.baseline == "auto" and missing:
        return None, [f"no {BASELINE}: it is fitted to the training clips, whose features --baseline extracts too"]
    path = contenders[0].files[0]
    parts = tuple(dict.fromkeys(("train", data.part)))
    found = data.for_model(load_contender(path), path, parts, on_item)
    baseline = majority_vote_baseline(found.dataset, data.part, options.bootstrap, options.seed)
    return baseline, [f"{BASELINE}: softmax regression on {baseline.fitted_rows:,} single rows of the training clips"]
