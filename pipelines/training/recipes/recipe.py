"""A recipe: everything that decides what a training run gives, as sections of frozen dataclasses.

A recipe is a TOML file. What it leaves out comes from the recipe of its model preset (`recipes/*.toml`: the paper's
numbers, or what we found to work better), and then from the defaults here. Keys that nobody knows are errors. See
`recipe_file.py` for reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from pipelines.datasets.source import DataSource, FeatureOptions
from pipelines.errors import ConfigurationError
from pipelines.metrics.probabilities import LONGEST_SMOOTHING
from pipelines.metrics.rejection import STATISTICS, Statistic

Optimizer = Literal["adam", "adamw", "sgd"]
Schedule = Literal["constant", "step", "cosine", "plateau"]
# chunk: one banded pass gives the loss of every window in a stretch. shared: the regular model on the windows of a
# stretch, which share what belongs to a token alone. auto: chunk where the model can, else window.
Sampling = Literal["auto", "chunk", "shared", "window"]
# last: a clip's loss is that of its last token. every: of every token. auto: last for clips, every for frames.
LossOn = Literal["auto", "last", "every"]
# auto: binary where a frame may have several labels, else cross-entropy.
Loss = Literal["auto", "cross-entropy", "binary"]
# What foreign recordings teach. class: they are examples of a class "none", without a logit of its own. shift: after
# training, the evidence for any class is lowered where they are, and no probability changes.
NoneOfThese = Literal["class", "shift"]
# bfloat16: matrix products of a training step in 16 bits, weights and scores in 32. auto: where the processor has them.
Precision = Literal["float32", "bfloat16", "auto"]
# What `best` is chosen by. auto: accuracy at the last token (clips) or mAP (frames).
Metric = Literal["auto", "accuracy", "accuracy_mean", "accuracy_vote", "map", "loss"]


@dataclass(frozen=True)
class DataOptions:
    """[data]: which dataset, and what belongs to it."""

    dataset: str = ""
    root: str | None = None
    validate_on: str = "validation"  # the split that `best` is chosen on
    train_on: str = "train"  # the split that is trained on; several joined by "+"
    foreign: str | None = None  # recordings of no class, whose answer is "none": a folder, or "made" for made sounds
    copies: int = 0  # of each training clip, changed: through other codecs, with noise, faster or slower
    in_a_row: bool = False  # clips of sound also as a stream plays them: one after the other, with pauses
    options: dict[str, Any] = field(default_factory=dict)  # the dataset's own: split, validation, split_seed, …


@dataclass(frozen=True)
class ModelOptions:
    """[model]: a preset and what differs from it; any key of the model configuration may stand here."""

    preset: str = "cotrans-b1"
    changes: dict[str, Any] = field(default_factory=dict)
    init: str | None = None  # checkpoint to start from


@dataclass(frozen=True)
class OptimizerOptions:
    """[optimizer]"""

    name: Optimizer = "adamw"
    learning_rate: float = 1e-4
    weight_decay: float = 1e-4
    gradient_clip: float = 1.0  # largest Euclidean norm of the gradient; 0: no limit
    momentum: float = 0.9  # of sgd; the first beta of the others
    age_rate: float = 1.0  # what the learning rate is multiplied by for the biases of relative positions


@dataclass(frozen=True)
class ScheduleOptions:
    """[schedule]: what the learning rate is multiplied by."""

    name: Schedule = "constant"
    factor: float = 0.1  # step: after each epoch. plateau: when the metric stays away. cosine: what is left at the end
    patience: int = 2  # plateau: epochs without a better metric that are tolerated
    warm_up: float = 0.0  # epochs over which the rate rises from zero
    warm_up_steps: int = 0  # the same in steps, whatever the size of the data; one of the two


@dataclass(frozen=True)
class TrainingOptions:
    """[training]"""

    epochs: int = 50
    least_steps: int = 0  # small data: epochs are added until there are as many steps as this
    precision: Precision = "float32"
    batch_size: int = 32  # windows or whole clips in a step
    seed: int = 0
    sampling: Sampling = "auto"
    chunk: int = 128  # labelled frames in a chunk of a long recording
    # Chunks begin as streams do, without the tokens before them: faster, and short memories are trained too.
    cold_chunks: bool = False
    chunk_batch: int = 8  # chunks of long recordings in a step
    stride: int = 1  # window and shared sampling: frames from one window to the next
    # Chunks of a model with a lag: share of steps in which it answers sooner, as it does when a recording ends.
    late: float = 0.0
    partial_windows: bool = False  # also the windows of a recording's beginning, which are not full yet
    loss_on: LossOn = "auto"
    loss: Loss = "auto"
    label_smoothing: float = 0.0
    background_weight: float = 1.0  # weight of frames in which nothing happens
    anticipation: float = 0.5  # weight of the decoder's loss, for models that have one
    standardize: bool = False  # features to mean 0 and deviation 1, folded into the input projection when saved
    ema: float = 0.0  # decay of the moving average of the weights that is validated and saved; 0: none
    none: NoneOfThese = "class"
    # Evidence below which the answer is "none", and what counts as evidence; left out: fitted after training.
    rejection: float | None = None
    rejection_by: Statistic = "energy"
    early_stop: int = 0  # epochs without a better metric after which training ends; 0: never
    metric: Metric = "auto"
    steps_per_epoch: int = 0  # ends an epoch early; 0: all of it
    validate_every: int = 1  # epochs
    baseline: bool = True  # fit classifiers of single rows too: what the memory has to beat
    validation_stride: int = 1  # frames between scored ones, where each costs a window of its own


@dataclass(frozen=True)
class AugmentationOptions:
    """[augmentation]: on features, in training only. Everything is off by default, as in the paper."""

    time_masks: int = 0  # stretches of time set to the mean of the features
    time_mask: int = 0  # longest of them, in rows
    bands: int = 0  # of one frame, where a row stacks several (n_mels of logmel); 0: masks take a row for one frame
    feature_masks: int = 0  # bands of neighbouring features set to the mean, in all frames of a row
    feature_mask: int = 0  # widest of them, in features
    feature_dropout: float = 0.0  # share of single features that are set to the mean for a whole sample
    noise: float = 0.0  # deviation of added noise, relative to each feature's own
    gain: float = 0.0  # deviation of a shift of all features that is common to a sample, relative to each feature's own
    mixup: float = 0.0  # parameter of the beta distribution that the share of a second sample is drawn from
    joins: float = 0.0  # share of clips that the end of another clip stands before, as in a stream that changes
    speed: float = 0.0  # largest relative change of speed, by resampling in time
    warp: float = 0.0  # largest relative change of all frequencies, along mel bands: longer and shorter vocal tracts
    equalizer: float = 0.0  # deviation of a random smooth curve over the bands, relative to each feature's own


@dataclass(frozen=True)
class StreamDefaults:
    """[stream]: what the checkpoint says of how a stream is told, unless the user says otherwise."""

    smooth: float = 0.0  # seconds over which probabilities are averaged
    least: float = 0.0  # seconds: shorter stretches are left out


@dataclass(frozen=True)
class FinetuneOptions:
    """[finetune]: the paper's stage 1, the feature network with a classifier on single windows."""

    batch_size: int = 64
    learning_rate: float = 1e-4
    factor: float = 0.6
    patience: int = 2
    early_stop: int = 5
    epochs: int = 100
    hop: float = 1.0  # seconds from one training window to the next


class RecipeValueError(ConfigurationError):
    """A value that no recipe can have. key: "section.key"; an error calls it as the user did."""

    def __init__(self, key: str, problem: str) -> None:
        self.key, self.problem = key, problem
        super().__init__(f"{key} {problem}")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a run gives, apart from the data itself."""

    data: DataOptions = DataOptions()
    features: FeatureOptions = field(default_factory=FeatureOptions)
    model: ModelOptions = ModelOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    schedule: ScheduleOptions = ScheduleOptions()
    training: TrainingOptions = TrainingOptions()
    augmentation: AugmentationOptions = AugmentationOptions()
    stream: StreamDefaults = StreamDefaults()
    finetune: FinetuneOptions = FinetuneOptions()

    @property
    def source(self) -> DataSource:
        """Where the recordings come from."""
        root = None if self.data.root is None else Path(self.data.root)
        return DataSource(self.data.dataset, root, self.data.options, self.features)

    def __post_init__(self) -> None:
        _check_choices(self)
        _check_ranges(self)


_CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer.name": get_args(Optimizer),
    "schedule.name": get_args(Schedule),
    "training.sampling": get_args(Sampling),
    "training.loss_on": get_args(LossOn),
    "training.loss": get_args(Loss),
    "training.precision": get_args(Precision),
    "training.metric": get_args(Metric),
    "training.none": get_args(NoneOfThese),
    "training.rejection_by": STATISTICS,
}
# Key: smallest and largest value, and whether the smallest is allowed itself.
_RANGES: dict[str, tuple[float, float, bool]] = {
    "data.copies": (0, float("inf"), True),
    "features.workers": (0, float("inf"), True),
    "optimizer.learning_rate": (0, float("inf"), False),
    "optimizer.weight_decay": (0, float("inf"), True),
    "optimizer.gradient_clip": (0, float("inf"), True),
    "optimizer.momentum": (0, 0.9999, True),
    "optimizer.age_rate": (0, float("inf"), False),
    "schedule.factor": (0, 1, True),
    "schedule.patience": (0, float("inf"), True),
    "schedule.warm_up": (0, float("inf"), True),
    "schedule.warm_up_steps": (0, float("inf"), True),
    "training.epochs": (1, float("inf"), True),
    "training.least_steps": (0, float("inf"), True),
    "training.batch_size": (1, float("inf"), True),
    "training.seed": (0, 2**32 - 1, True),
    "training.chunk": (1, float("inf"), True),
    "training.chunk_batch": (1, float("inf"), True),
    "training.stride": (1, float("inf"), True),
    "training.late": (0, 1, True),
    "training.label_smoothing": (0, 0.999, True),
    "training.background_weight": (0, float("inf"), True),
    "training.anticipation": (0, float("inf"), True),
    "training.ema": (0, 0.999999, True),
    "training.early_stop": (0, float("inf"), True),
    "training.steps_per_epoch": (0, float("inf"), True),
    "training.validate_every": (1, float("inf"), True),
    "training.validation_stride": (1, float("inf"), True),
    "augmentation.time_masks": (0, float("inf"), True),
    "augmentation.time_mask": (0, float("inf"), True),
    "augmentation.bands": (0, float("inf"), True),
    "augmentation.feature_masks": (0, float("inf"), True),
    "augmentation.feature_mask": (0, float("inf"), True),
    "augmentation.feature_dropout": (0, 0.999, True),
    "augmentation.noise": (0, float("inf"), True),
    "augmentation.gain": (0, float("inf"), True),
    "augmentation.mixup": (0, float("inf"), True),
    "augmentation.joins": (0, 1, True),
    "augmentation.speed": (0, 0.9, True),
    "augmentation.warp": (0, 0.5, True),
    "augmentation.equalizer": (0, float("inf"), True),
    "stream.smooth": (0, LONGEST_SMOOTHING, True),
    "stream.least": (0, LONGEST_SMOOTHING, True),
    "finetune.batch_size": (1, float("inf"), True),
    "finetune.learning_rate": (0, float("inf"), False),
    "finetune.factor": (0, 1, False),
    "finetune.patience": (0, float("inf"), True),
    "finetune.early_stop": (1, float("inf"), True),
    "finetune.epochs": (1, float("inf"), True),
    "finetune.hop": (0, float("inf"), False),
}


def _value(recipe: Recipe, key: str) -> Any:
    section, name = key.split(".")
    return getattr(getattr(recipe, section), name)


def _check_choices(recipe: Recipe) -> None:
    for key, choices in _CHOICES.items():
        value = _value(recipe, key)
        if value not in choices:
            raise RecipeValueError(key, f"must be one of {', '.join(choices)}, not {value!r}")


def _check_ranges(recipe: Recipe) -> None:
    for key, (low, high, inclusive) in _RANGES.items():
        value = _value(recipe, key)
        if not ((low <= value if inclusive else low < value) and value <= high):
            lower = f"at least {low:g}" if inclusive else f"above {low:g}"
            upper = "" if high == float("inf") else f" and at most {high:g}"
            raise RecipeValueError(key, f"must be {lower}{upper}, not {value}")
    if recipe.schedule.warm_up and recipe.schedule.warm_up_steps:
        raise ConfigurationError("schedule.warm_up (epochs) and schedule.warm_up_steps are two ways to say one thing")
    training = recipe.training
    if training.rejection is None and training.rejection_by != TrainingOptions.rejection_by:
        raise RecipeValueError("training.rejection_by", "is what training.rejection is a threshold of: give that too")
    augmentation = recipe.augmentation
    for number, size in (("time_masks", "time_mask"), ("feature_masks", "feature_mask")):
        if bool(getattr(augmentation, number)) != bool(getattr(augmentation, size)):
            raise RecipeValueError(
                f"augmentation.{number}", f"(how many) and augmentation.{size} (how large) go together"
            )
