"""Evaluate a model on a split of a dataset: run it, compare the modes, score it, and say what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from pipelines.costs.counting import count_macs
from pipelines.datasets.dataset import Dataset
from pipelines.datasets.item import Item
from pipelines.datasets.rows.feature_rows import open_rows
from pipelines.datasets.rows.frame_targets import frame_targets
from pipelines.errors import ConfigurationError, InputError, UsageError
from pipelines.evaluation.scores.classification import score_clips
from pipelines.evaluation.scores.detection import DetectionOptions, score_detection
from pipelines.evaluation.scores.honesty import score_honesty
from pipelines.evaluation.scores.ordered_events import score_events
from pipelines.evaluation.scores.precision_loss import PrecisionLoss
from pipelines.evaluation.scores.predictions import Predictions, make_predictions
from pipelines.evaluation.scores.protocols import OAD_FUTURE, OAD_WINDOW, PROTOCOLS, Protocol, protocol_for
from pipelines.evaluation.scores.scoring import Evaluation
from pipelines.evaluation.scores.spotting import THRESHOLD, Spotting, score_spotting
from pipelines.metrics.class_order import ClassOrder, OrderFilter
from pipelines.metrics.probabilities import ScoreKind, probabilities
from pipelines.metrics.rejection import Rejection
from pipelines.model.continual_model import ContinualModel
from pipelines.running.agreement import TOLERANCE, Agreement, compare_runs, require_agreement
from pipelines.running.passes import Outputs
from pipelines.running.runner import Damage, Mode, Recording, Run, Speed, run_model, speed_of
from pipelines.running.timing import time_steps
from pipelines.shard import WHOLE, Shard
from pipelines.wording import listed

OnProgress = Callable[[Mode, int, int], None]  # mode, rows done, rows in all
# Model, recordings, modes, threads that read ahead, progress -> a run in each mode.
RunModes = Callable[[ContinualModel, Sequence[Recording], Sequence[Mode], int, OnProgress | None], Sequence[Run]]


@dataclass(frozen=True)
class Cost:
    """What one prediction takes, whatever the machine."""

    step_macs: int  # multiply-accumulates of one step, counted while it ran
    window_macs: int  # of the regular model on a full window
    parameters: int
    state_bytes: int  # of one stream


@dataclass(frozen=True)
class ModelEvaluation:
    """Everything that a row of the table needs."""

    evaluation: Evaluation  # of the first mode
    predictions: Predictions
    named: Predictions  # what a stream would say: the same, unless the model's classes have an order
    scores: dict[Mode, float]  # the headline of each mode
    speeds: dict[Mode, Speed]
    step: Speed  # of single steps, as a live stream takes them, whatever the modes
    agreement: Agreement | None  # with two modes or more
    cost: Cost
    damaged: tuple[Damage, ...]  # recordings that were left out
    options: DetectionOptions  # what it was scored by
    hop: float | None  # seconds between the rows of its features; models that are compared may differ
    spotting: Spotting | None = None  # of datasets whose events are to be spotted
    other_sound: Spotting | None = None  # false alarms in foreign recordings, which have no event
    loss: PrecisionLoss | None = None  # of weights in fewer bits than float32


def evaluate_model(
    model: ContinualModel,
    class_names: Sequence[str],
    dataset: Dataset,
    split: str,
    modes: Sequence[Mode] = ("chunk",),
    protocol: str | None = None,
    options: DetectionOptions | None = None,
    tolerance: float = TOLERANCE,
    workers: int = 1,
    on_progress: OnProgress | None = None,
    score_kind: ScoreKind = "softmax",
    rejection: Rejection | None = None,
    foreign: Sequence[Recording] = (),
    threshold: float = THRESHOLD,
    least: float = 0.0,
    run: RunModes | None = None,
    order: ClassOrder | None = None,
) -> ModelEvaluation:
    """Run `model` over the features of a split in each of `modes`; modes that disagree are an error.

    rejection: the model's rule for "none of these". foreign: recordings of no class, whose answer should be that, or in
    which nothing should be spotted. threshold: probability of a spot, least: seconds that it lasts at least. run: what
    runs the model, if not this process. order: how the model's classes follow each other.
    """
    check_class_names(class_names, dataset)
    rules = detection_protocol(dataset, protocol)
    items = {item.name: item for item in dataset.split(split)}
    recordings = recordings_of(dataset, split)
    options = options or default_options(model)
    runs = (run or run_modes)(model, recordings, modes, workers, on_progress)
    agreement = compare_runs(runs) if len(runs) > 1 else None
    if agreement is not None:
        require_agreement(agreement, tolerance)
    labelled = [predictions_of(run, dataset, items, model.config.lag, score_kind, order) for run in runs]
    evaluations = [score_dataset(answers.predictions, dataset, rules, options, answers.named) for answers in labelled]
    if dataset.kind == "clips":
        labels = {name: item.label for name, item in items.items() if item.label is not None}
        heard = run_model(model, list(foreign), "chunk", workers).outputs if foreign else {}
        honesty = score_honesty(
            {name: outputs.logits for name, outputs in runs[0].outputs.items()},
            labels,
            score_kind,
            rejection,
            [outputs.logits for outputs in heard.values()],
        )
        evaluations = [replace(evaluation, honesty=honesty) for evaluation in evaluations]
    predictions, lag = labelled[0].predictions, model.config.lag
    spotting = _spotting(predictions, dataset, lag, threshold, least) if dataset.spotted else None
    other_sound = None
    if foreign and dataset.kind == "frames":
        heard = run_model(model, list(foreign), "chunk", workers).outputs
        other_sound = _spotting(_of_background(heard, dataset, lag, score_kind), dataset, lag, threshold, least)
    speeds = {run.mode: speed_of(run, dataset.hop) for run in runs}
    usable = [recording for recording in recordings if recording.name in runs[0].outputs]
    return ModelEvaluation(
        evaluation=evaluations[0],
        predictions=predictions,
        named=labelled[0].named or predictions,
        scores={run.mode: evaluation.value for run, evaluation in zip(runs, evaluations, strict=True)},
        speeds=speeds,
        step=speeds["stream"] if "stream" in speeds else time_steps(model, usable, dataset.hop),
        agreement=agreement,
        cost=measure_cost(model),
        damaged=(*runs[0].damaged, *labelled[0].damaged),
        options=options,
        hop=dataset.hop,
        spotting=spotting,
        other_sound=other_sound,
    )


def recordings_of(dataset: Dataset, split: str) -> list[Recording]:
    """What a model runs on."""
    return [recording_of(item, dataset.trim) for item in dataset.split(split)]


def recording_of(item: Item, trim: int) -> Recording:
    """The features of an item, opened when their turn comes."""
    return Recording(item.name, lambda: open_rows(item, trim))


def run_modes(
    model: ContinualModel,
    recordings: Sequence[Recording],
    modes: Sequence[Mode],
    workers: int = 1,
    on_progress: OnProgress | None = None,
    shard: Shard = WHOLE,
) -> list[Run]:
    """A run in each mode, in this process."""
    watch = [None if on_progress is None else _for_mode(on_progress, mode) for mode in modes]
    return [
        run_model(model, recordings, mode, workers, on_rows, shard) for mode, on_rows in zip(modes, watch, strict=True)
    ]


def _spotting(predictions: Predictions, dataset: Dataset, lag: int, threshold: float, least: float) -> Spotting:
    if dataset.background is None or dataset.hop is None:
        raise UsageError(
            f"--foreign: dataset {dataset.name} has no class for frames in which nothing happens, or nobody knows how "
            "many there are in an hour, so false alarms cannot be counted: leave it out"
        )
    return score_spotting(predictions, dataset.class_names, dataset.background, dataset.hop, lag, threshold, least)


def _of_background(outputs: Mapping[str, Outputs], dataset: Dataset, lag: int, score_kind: ScoreKind) -> Predictions:
    """What a model says about recordings in which nothing happens."""
    scores = [probabilities(output.about_rows(lag).logits, score_kind, dataset.ignored) for output in outputs.values()]
    names = np.repeat(list(outputs), [len(rows) for rows in scores])
    label = np.full(len(names), dataset.background or 0)
    return make_predictions(
        np.concatenate(scores).astype(np.float32), label, names, classes=dataset.class_names, where="foreign recordings"
    )


def default_options(model: ContinualModel) -> DetectionOptions:
    """What a protocol leaves out at the ends of a video, from the model's own window and horizon."""
    memory = model.config.warm_up
    return DetectionOptions(
        window=memory if memory > 1 else OAD_WINDOW, future=model.config.decoder_queries or OAD_FUTURE
    )


def check_class_names(class_names: Sequence[str], dataset: Dataset) -> None:
    """The model's classes must be the dataset's, in the same order."""
    if tuple(class_names) == dataset.class_names:
        return
    strange = [name for name in dataset.class_names if name not in class_names]
    if strange:
        raise ConfigurationError(
            f"the model does not know {listed(strange)}, of dataset {dataset.name}; its classes are "
            f"{listed(class_names, most=12)}: score a model that was trained on these labels"
        )
    if len(class_names) != len(dataset.class_names):
        raise ConfigurationError(
            f"the model has {len(class_names)} classes, but dataset {dataset.name} has {len(dataset.class_names)}: "
            "score a model that was trained on this dataset"
        )
    index = next(i for i, pair in enumerate(zip(class_names, dataset.class_names, strict=True)) if pair[0] != pair[1])
    raise ConfigurationError(
        f"class {index} of the model is '{class_names[index]}', but '{dataset.class_names[index]}' in dataset "
        f"{dataset.name}: score a model that was trained on this dataset"
    )


def detection_protocol(dataset: Dataset, name: str | None) -> Protocol | None:
    """The rules for the frames of a dataset; None where whole clips are scored."""
    if dataset.name in PROTOCOLS:
        return protocol_for(dataset.name, name)
    if name is not None:
        raise UsageError(f"dataset '{dataset.name}' has one way of scoring: leave --protocol out")
    if dataset.kind == "clips":
        return None
    ignored = [dataset.class_names[index] for index in dataset.ignored]
    return Protocol(
        name="every-frame",
        headline="mAP",
        layouts=(dataset.class_names,),
        scored=tuple(dataset.class_names[index] for index in dataset.scored_classes),
        ambiguous=ignored[0] if ignored else None,
    )


def score_dataset(
    predictions: Predictions,
    dataset: Dataset,
    protocol: Protocol | None,
    options: DetectionOptions,
    named: Predictions | None = None,
) -> Evaluation:
    """Frames by their protocol, or clips. named: what a stream would say of them, where classes have an order."""
    if protocol is not None:
        events = score_events(predictions, dataset.class_names, named) if dataset.ordered else None
        return Evaluation(dataset.name, detection=score_detection(predictions, protocol, options), events=events)
    clips = score_clips(predictions, dataset.class_names, options.bootstrap > 0)
    return Evaluation(dataset.name, clips=clips)


@dataclass(frozen=True)
class LabelledRun:
    """The scores of a run with their labels, and the recordings whose labels do not fit."""

    predictions: Predictions
    damaged: tuple[Damage, ...]
    named: Predictions | None = None  # in the order of the classes, where they have one


def predictions_of(
    run: Run,
    dataset: Dataset,
    items: dict[str, Item],
    lag: int = 0,
    score_kind: ScoreKind = "softmax",
    order: ClassOrder | None = None,
) -> LabelledRun:
    """Scores and labels of every row of a run.

    The output of a model with a lag is about the row `lag` steps ago; about the last rows of a recording it speaks when
    nothing more comes. Clips have one label, so there every output counts.
    """
    scores, labels, names, ahead, damaged, in_order = [], [], [], [], [], []
    following = None if order is None or dataset.hop is None else OrderFilter(order, dataset.hop)
    lag = 0 if dataset.kind == "clips" else lag
    for name, outputs in run.outputs.items():
        try:
            targets = frame_targets(dataset, items[name], len(outputs.logits)).targets
        except InputError as error:
            damaged.append(Damage(name, str(error)))
            continue
        about = outputs.about_rows(lag)
        rows = min(len(targets), len(about.logits))  # annotation may be a little shorter than the features
        scores.append(probabilities(about.logits[:rows], score_kind, dataset.ignored))
        labels.append(targets[:rows] > 0)
        names += [name] * rows
        if following is not None:  # as a stream hears them: from the first row on, which is about what was before it
            heard = np.concatenate([outputs.logits[:lag], about.logits])
            in_order.append(following.decode(probabilities(heard, score_kind))[lag : lag + rows])
        if about.anticipation is not None:
            ahead.append(probabilities(about.anticipation[:rows], score_kind, dataset.ignored))
    if not scores:
        raise InputError(f"no recording could be used; the first, {damaged[0].name}: {damaged[0].reason}")
    predictions = make_predictions(
        np.concatenate(scores).astype(np.float32),
        np.concatenate(labels),
        np.array(names),
        classes=dataset.class_names,
        anticipation=np.concatenate(ahead).astype(np.float32) if ahead else None,
        where="the model's scores",
    )
    named = replace(predictions, scores=np.concatenate(in_order).astype(np.float32)) if in_order else None
    return LabelledRun(predictions, tuple(damaged), named)


def measure_cost(model: ContinualModel) -> Cost:
    """Count one step and one window while they run, on zeros: counts do not depend on values."""
    config = model.config
    token = torch.zeros(1, config.input_width, device=model.device, dtype=model.dtype)
    with torch.inference_mode():
        state = model.initial_state(1)
        for _ in range(config.window):
            _, state = model.step_(token, state)
        step = count_macs(model.step_, token, state)
        window = count_macs(model, token.expand(config.window, -1).unsqueeze(0))
    return Cost(step.total, window.total, sum(p.numel() for p in model.parameters()), state.nbytes)


def _for_mode(on_progress: OnProgress, mode: Mode) -> Callable[[int, int], None]:
    return lambda done, total: on_progress(mode, done, total)
