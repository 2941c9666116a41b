"""One training run from a recipe: data, model, loop, files."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from pipelines.checkpoints.builtin import find_model
from pipelines.checkpoints.checkpoint import load_checkpoint, read_header
from pipelines.datasets.dataset import Dataset
from pipelines.datasets.rows.feature_cache import OnItem
from pipelines.datasets.source import open_source
from pipelines.devices import choose_device, multiplies_bfloat16
from pipelines.errors import ConfigurationError, InputError
from pipelines.features.extraction.sources import recordings_in
from pipelines.features.stream_factory import StreamFactory
from pipelines.files import write_text
from pipelines.metrics.rejection import Rejection
from pipelines.model.base_config import BaseConfig
from pipelines.model.transformer.config import ModelConfig
from pipelines.training.artifacts import ModelDescription, RunFolder, command_line, describe_environment
from pipelines.training.events import BaselineDone, Observer, Remark, nobody
from pipelines.training.fitting.baseline import PerFrameScores, fit_row_classifiers, score_row_classifiers
from pipelines.training.fitting.distributed import CPU, Processes, processes
from pipelines.training.fitting.finetune_extractor import finetune_extractor
from pipelines.training.fitting.initial_model import check_initial_features, make_model, model_config
from pipelines.training.fitting.loop import Problem, Trainer, TrainingInterrupted
from pipelines.training.fitting.losses import score_kind
from pipelines.training.fitting.objective import Objective
from pipelines.training.fitting.reading import fit_reading
from pipelines.training.fitting.validation import Scores, Validator
from pipelines.training.model_card import model_card
from pipelines.training.none_of_these.foreign import MADE
from pipelines.training.none_of_these.rejection import add_rejection
from pipelines.training.recipes.data_facts import coarse_score
from pipelines.training.recipes.recipe import Recipe
from pipelines.training.recipes.recipe_file import recipe_values
from pipelines.training.run_place import occupied, require_writable
from pipelines.training.samples.augment import is_active
from pipelines.training.samples.bands import band_layout
from pipelines.training.samples.batching import BatchLoader
from pipelines.training.samples.opening import TrainingData, open_data
from pipelines.training.samples.sampling import sampling_plan
from pipelines.training.samples.statistics import FeatureStatistics, feature_statistics

if TYPE_CHECKING:
    import pandas


ANY_WINDOW = 4096  # rows that are always allowed
LONGER = 16  # than the longest recording: so much longer a window may be


@dataclass(frozen=True)
class RunResult:
    """What a finished run gave."""

    folder: Path
    seed: int
    metric: str
    best_epoch: int
    scores: Scores | None  # at the best epoch
    last_scores: Scores | None
    epochs: int
    steps: int
    parameters: int
    train_recordings: int
    validation_recordings: int
    seconds: float
    baseline: PerFrameScores | None = None  # of single rows, on the validation recordings
    rejection: Rejection | None = None  # when the answer is "none of these"

    @property
    def below_baseline(self) -> bool:
        """Whether the model is worse than a classifier without memory."""
        return self._behind > 0

    @property
    def clips_behind(self) -> int:
        """How many validation clips fewer than a classifier without memory the model names rightly."""
        clips = self.baseline is not None and self.baseline.metric != "map"
        return round(max(0.0, self._behind) * self.validation_recordings) if clips else 0

    @property
    def _behind(self) -> float:
        """By how much a classifier without memory is better; negative where the model is."""
        if self.baseline is None or self.scores is None:
            return 0.0
        own = [self.scores.map] if self.baseline.metric == "map" else [self.scores.accuracy, self.scores.accuracy_mean]
        return self.baseline.best - max(value for value in own if value is not None)

    def history(self) -> pandas.DataFrame:
        """A row for each epoch: losses, validation scores, learning rate, time. The same as metrics.csv."""
        import pandas

        return pandas.read_csv(self.folder / "metrics.csv")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("scores", "last_scores"):
            scores = values[name]
            values[name] = None if scores is None else {k: v for k, v in vars(scores).items() if v is not None}
        values["baseline"] = None if self.baseline is None else asdict(self.baseline)
        values["rejection"] = None if self.rejection is None else self.rejection.to_dict()
        values["below_baseline"] = self.below_baseline
        return {**values, "folder": str(self.folder), "checkpoint": str(RunFolder(self.folder).best)}


def train(
    recipe: Recipe,
    out: Path,
    resume: bool = False,
    device: str = "auto",
    observer: Observer = nobody,
    on_item: OnItem | None = None,
) -> RunResult:
    """Train as `recipe` says, into the folder `out`. With `resume`, go on with the run that is there.

    Raises TrainingInterrupted on Ctrl-C, with everything saved.
    """
    require_writable(out)
    _check_early(recipe)
    with processes(choose_device(device)) as group, occupied(out) if group.main else nullcontext():
        observer = observer if group.main else nobody
        if recipe.features.finetune:
            recipe = _with_finetuned_extractor(recipe, out, group, observer)
        data = open_data(recipe, group, on_item, lambda text: observer(Remark(text)))
        if coarse := coarse_score(len(data.validation), data.clips):
            observer(Remark(coarse))
        return train_on(data, recipe, RunFolder(out), resume, group, observer)


def _check_early(recipe: Recipe) -> None:
    """What is wrong with a recipe by itself is told now, not after features have been extracted."""
    init = recipe.model.init
    if init is not None:
        read_header(find_model(init))
    if recipe.data.foreign not in (None, MADE):
        recordings_in(Path(str(recipe.data.foreign)), "--foreign")
    request = recipe.features.request
    if request is None:
        return
    spec = StreamFactory(request).prototype().spec  # finds missing weights and packages
    band_layout(recipe.augmentation, spec, spec.width)
    if init is not None:
        check_initial_features(init, spec, spec.width)


def _check_window(window: int, data: TrainingData) -> None:
    """Refuse a window that no recording comes near to filling: its memory would fill the machine with nothing."""
    longest = max(len(recording) for recording in (*data.train, *data.validation))
    if window > max(ANY_WINDOW, LONGER * longest):
        raise ConfigurationError(
            f"a window of {window:,} rows is far longer than any recording (the longest has {longest:,}): choose a "
            "--window of about that or less"
        )


def train_on(
    data: TrainingData,
    recipe: Recipe,
    folder: RunFolder,
    resume: bool = False,
    group: Processes | None = None,
    observer: Observer = nobody,
) -> RunResult:
    """`train` on data that are open already."""
    group = group or Processes()
    _check_same_data(data, group)
    seed = recipe.training.seed
    statistics = _statistics(data, recipe, group)
    if recipe.model.init is not None:
        check_initial_features(recipe.model.init, data.spec, data.width, observer)
    dataset = data.dataset
    config = model_config(recipe, data.width, len(dataset.class_names), observer, dataset.background)
    _check_window(config.window, data)
    model = make_model(recipe, config, seed, statistics)
    problem = make_problem(data, recipe, config, statistics, group.device)
    state = folder.read_state() if resume else None
    if state is None:
        fit_reading(model, data.train, data.groups, statistics if recipe.training.standardize else None)
    recipe = _with_enough_steps(recipe, problem)
    trainer = Trainer(model, problem, recipe, folder, group, observer)
    if state is not None:
        trainer.restore(state)
        if group.main:
            folder.go_on(command_line())
    elif group.main:
        if resume:
            observer(Remark("the run ended before its first epoch was saved: it begins again"))
        folder.begin(recipe, describe_environment(seed, group.device, group.size), again=resume)
    if group.main:
        folder.write_recordings(_recordings(dataset))
    group.wait()
    baseline = _baseline(data, problem, recipe, observer) if group.main else None
    try:
        trainer.run()
    except TrainingInterrupted:
        if data.clips and problem.objective.loss == "cross-entropy":
            observer(
                Remark("when none of the classes is the answer is learned at the end: until then one is always named")
            )
        raise
    rejection = _rejection(data, recipe, folder, problem, observer) if group.main else None
    group.wait()
    result = RunResult(
        folder=folder.path,
        seed=seed,
        metric=problem.metric,
        best_epoch=max((epoch.epoch for epoch in trainer.history if epoch.best), default=trainer.epoch),
        scores=trainer.best_scores,
        last_scores=trainer.history[-1].scores,
        epochs=trainer.epoch,
        steps=trainer.steps,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        train_recordings=len(data.train),
        validation_recordings=len(data.validation),
        seconds=sum(epoch.seconds for epoch in trainer.history),
        baseline=baseline,
        rejection=rejection,
    )
    if group.main:
        folder.write_summary(result.to_dict())
        best = load_checkpoint(folder.best).model
        confusion = None
        if problem.validator is not None:  # the checkpoint standardises by itself
            confusion = replace(problem.validator, statistics=None).confusion(best)
        single_rows = None if baseline is None else baseline.best
        folder.write_card(model_card(data, config, result.scores, single_rows, confusion, folder.commands()))
    return result


def make_problem(
    data: TrainingData,
    recipe: Recipe,
    config: BaseConfig,
    statistics: FeatureStatistics | None,
    device: torch.device = CPU,
) -> Problem:
    """What the loop needs to know of data and recipe."""
    options, dataset = recipe.training, data.dataset
    plan = sampling_plan(recipe, config, data.clips)
    multi_label = dataset.multi_label and not data.clips
    loss: Literal["cross-entropy", "binary"] = "binary" if multi_label else "cross-entropy"
    if options.loss != "auto":
        loss = options.loss
    if isinstance(config, ModelConfig) and config.recall and (data.clips or loss != "cross-entropy"):
        raise ConfigurationError("model.recall weighs frames by cross-entropy's probabilities: a clip has one answer")
    if isinstance(config, ModelConfig) and config.reading and not (data.clips and loss == "cross-entropy"):
        raise ConfigurationError("model.reading names clips by cross-entropy's probabilities: it is not for frames")
    for key, wanted in (("augmentation.joins", recipe.augmentation.joins), ("data.in_a_row", recipe.data.in_a_row)):
        if wanted and (not data.clips or plan.mode != "chunk" or plan.last_only):
            raise ConfigurationError(
                f"{key} puts clips in a row, each with its own label: it is for clips, with training.loss_on every and "
                "a model that is trained on chunks"
            )
    lag = 0 if data.clips else config.lag  # every answer of a clip is about the whole of it
    if options.late and not (lag and plan.mode == "chunk"):
        raise ConfigurationError(
            "training.late is for streams, with a model that has a lag (model.lag) and is trained on chunks"
        )
    validator = None
    if not data.validation and (options.early_stop or recipe.schedule.name == "plateau"):
        raise ConfigurationError(
            "training.early_stop and the schedule plateau wait for a validation metric, but there is nothing to "
            "validate on: --validation 0.1 or --validate-on choose a split"
        )
    if data.validation:
        validator = Validator(
            data.validation,
            dataset.scored_classes,
            loss,
            "window" if plan.mode == "window" else "chunk",
            options.validation_stride,
            statistics if options.standardize else None,
            lag,
        )
    for key, wanted in (("none", options.none != "class"), ("rejection", options.rejection is not None)):
        if wanted and not (data.clips and loss == "cross-entropy"):
            raise ConfigurationError(
                f"training.{key} is about the answer none of clips with the loss cross-entropy: streams have their "
                "background for it, and a binary loss its own way to say none"
            )
    shown = data.foreign.train if recipe.data.foreign is not None and options.none == "class" else ()
    none = bool(shown) and data.clips  # streams have their background for it
    if none and loss != "cross-entropy":
        raise ConfigurationError("data.foreign needs the loss cross-entropy: a binary loss has its own way to say none")
    loader = BatchLoader(
        recordings=(*data.train, *data.in_a_row, *shown),
        statistics=statistics,
        standardize=options.standardize,
        augmentation=recipe.augmentation,
        positions=config.recycled_positions,
        lag=lag,
        queries=config.decoder_queries,
        background=dataset.background,
        background_weight=options.background_weight,
        seed=options.seed,
        layout=band_layout(recipe.augmentation, data.spec, data.width),
    )
    metric = _metric(options.metric, data, plan.mode)
    described = ModelDescription(
        class_names=dataset.class_names,
        features=data.spec,
        provenance={
            "made by": "cotrans train",
            "dataset": dataset.name,
            "loss": loss,  # what a recipe's "auto" came to
            "train": len(data.train),
            "validation": len(data.validation),
            "recipe": _shareable(recipe),
        },
        score_kind=score_kind(loss),
        smoothing=recipe.stream.smooth,
        least=recipe.stream.least,
    )
    bfloat16 = options.precision == "bfloat16" or (options.precision == "auto" and multiplies_bfloat16(device))
    objective = Objective(
        plan.mode, loss, options.label_smoothing, options.anticipation, bfloat16, none, options.stride, options.late
    )
    return Problem(loader, plan, objective, validator, metric, described)


def _recordings(dataset: Dataset) -> list[tuple[str, str, str]]:
    """Split, name and label (streams: none) of each recording, without changed copies."""
    names = dataset.class_names
    return [
        (item.split, item.name, "" if item.label is None else names[item.label])
        for item in dataset.items
        if item.copy_of is None
    ]


def _with_enough_steps(recipe: Recipe, problem: Problem) -> Recipe:
    """The recipe with as many epochs as `least_steps` takes on these data."""
    options = recipe.training
    epochs = math.ceil(options.least_steps / len(problem.batches(options.seed, 0)))
    return replace(recipe, training=replace(options, epochs=max(options.epochs, epochs)))


def _rejection(
    data: TrainingData, recipe: Recipe, folder: RunFolder, problem: Problem, observer: Observer
) -> Rejection | None:
    """Give the checkpoints of a run their rule for "none of these"."""
    if not data.clips or problem.objective.loss != "cross-entropy":
        return None
    rule, options = None, recipe.training
    shortest = min(map(len, data.train))
    chosen = None if options.rejection is None else Rejection(options.rejection_by, options.rejection)
    for path in (folder.last, folder.best):
        with folder.writing():
            unshown = () if problem.objective.none else data.train
            rule = add_rejection(path, data.validation, data.foreign, shortest, unshown, chosen, data.played)
    if rule is not None:
        observer(
            Remark("what is unlike all classes is answered with none of these; `stream --threshold 0` always names one")
        )
    return rule


def _baseline(data: TrainingData, problem: Problem, recipe: Recipe, observer: Observer) -> PerFrameScores | None:
    if problem.validator is None or not recipe.training.baseline:
        return None
    scores = score_row_classifiers(fit_row_classifiers(data.train, problem.objective.loss), problem.validator)
    observer(BaselineDone(scores))
    return scores


def _shareable(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The recipe without the places on this machine, which are of no use to others and nobody's business."""
    places = {"data": ("root", "foreign"), "features": ("directory", "cache", "weights"), "model": ("init",)}
    return {
        section: {key: value for key, value in content.items() if key not in places.get(section, ())}
        for section, content in recipe_values(recipe).items()
    }


def _metric(wanted: str, data: TrainingData, mode: str) -> str:
    """The validation metric that `best` is chosen by; one that will not be there is refused before training."""
    if not data.validation:
        return "loss"
    if wanted == "auto":
        return "accuracy" if data.clips else "map"
    if wanted != "loss" and data.clips == (wanted == "map"):
        kind = "clips have accuracies" if data.clips else "frames have map"
        raise ConfigurationError(f"training.metric is {wanted}, but {kind}")
    if wanted in ("accuracy_mean", "accuracy_vote") and mode == "window":
        raise ConfigurationError(
            f"training.metric is {wanted}, but only a banded pass gives every token of a clip: use accuracy"
        )
    return wanted


def _with_finetuned_extractor(recipe: Recipe, out: Path, group: Processes, observer: Observer) -> Recipe:
    """Stage 1, unless its weights are in `out` already; then the recipe that takes them for stage 2.

    Only the first process fine-tunes; the others wait for its file.
    """
    weights = RunFolder(out).extractor
    if group.main and not weights.is_file():
        result = finetune_extractor(open_source(recipe.source), recipe, out, group, observer)
        record = {name: value for name, value in vars(result).items() if name != "weights"}
        with RunFolder(out).writing():
            write_text(out / "extractor.json", json.dumps(record, indent=2) + "\n")
    group.wait()
    request = recipe.features.request
    assert request is not None  # stage 1 refuses to run without one
    finetuned = replace(request, weights={**request.weights, request.names: str(weights)})
    return replace(recipe, features=replace(recipe.features, request=finetuned))


def _check_same_data(data: TrainingData, group: Processes) -> None:
    """Processes that see different files would wait for each other for ever."""
    counted = (data.train, data.validation, data.foreign.train)
    seen = tuple(number for recordings in counted for number in (sum(map(len, recordings)), len(recordings)))
    everyone = group.gather(seen)
    if len(set(everyone)) > 1:
        raise InputError(
            f"the processes see different data (training rows and recordings: "
            f"{', '.join(f'{rows} in {count}' for rows, count, *_ in everyone)}): give all of them the same files"
        )


def _statistics(data: TrainingData, recipe: Recipe, group: Processes) -> FeatureStatistics | None:
    needed = recipe.training.standardize or is_active(recipe.augmentation)
    return feature_statistics(data.train, group) if needed else None
