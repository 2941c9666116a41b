"""A model that is ready to stream: the checkpoint, what makes probabilities of its scores, and its features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from pipelines.checkpoints.builtin import find_model
from pipelines.devices import choose_device
from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.exporting.description import StepDescription
from pipelines.exporting.runtime import SUFFIX, OnnxStep
from pipelines.features.feature_match import fitting_spec
from pipelines.features.joint import FeatureStream
from pipelines.features.request import FeatureRequest
from pipelines.features.spec import FeatureSpec
from pipelines.features.stream_factory import StreamFactory
from pipelines.metrics.class_order import ClassOrder
from pipelines.metrics.probabilities import SCORE_KINDS, ScoreKind
from pipelines.metrics.rejection import Rejection
from pipelines.settings import DEFAULT_MODEL, load_settings
from pipelines.streaming.predicting.engine import SteppingModel, model_config
from pipelines.wording import listed

if TYPE_CHECKING:
    from pipelines.checkpoints.checkpoint import Checkpoint
    from pipelines.model.base_config import BaseConfig
    from pipelines.model.precision import Precision

MOST_NAMED = 12  # classes in the one line about a model


@dataclass(frozen=True)
class StreamModel:
    """Everything that streams share. The networks that compute features are loaded when the first media is opened."""

    name: str
    files: tuple[Path, ...]  # the checkpoint and the weights that it was opened with
    model: SteppingModel
    class_names: tuple[str, ...]
    features: FeatureSpec | None  # None: the checkpoint does not say what it was trained on
    score_kind: ScoreKind
    rejection: Rejection | None  # the model's own rule for "none of these"
    smoothing: float  # seconds over which its probabilities are averaged unless the user says otherwise
    feature_streams: FeatureStreams
    order: ClassOrder | None = None  # how its classes follow each other; None: any may follow any
    least: float = 0.0  # seconds: shorter stretches are left out unless the user says otherwise

    @property
    def config(self) -> BaseConfig:
        """The configuration of the model, or of the one that was exported."""
        return model_config(self.model)

    @property
    def window(self) -> int:
        """Rows after which an output has seen as much as it ever will."""
        return self.model.config.warm_up

    @property
    def described(self) -> str:
        """The model and what it can hear or see, in one line."""
        none = ", or none of these" if self.rejection is not None else ""
        none += "; RANDOM WEIGHTS in its features" if self.features is not None and self.features.untrained else ""
        return f"{self.name}: {listed(self.class_names, MOST_NAMED)}{none}"


class FeatureStreams:
    """Makes a feature stream for each media source of a model."""

    def __init__(self, name: str, spec: FeatureSpec | None, weights: Mapping[str, str], device: str) -> None:
        self._name, self._spec, self._weights, self._device = name, spec, weights, device
        self._factory: StreamFactory | None = None
        self._lock = Lock()

    def new(self) -> FeatureStream:
        """A stream at its beginning: the very one that `extract` would use."""
        with self._lock:
            if self._factory is None:
                if self._spec is None:
                    raise InputError(
                        f"the model {self._name} does not say which features it takes, so it cannot play media: "
                        "name them with --features (or in `cotrans convert`), or stream feature files"
                    )
                self._factory = StreamFactory.for_spec(self._spec, self._weights, self._device)
            return self._factory.prototype()


class SoundStreams(FeatureStreams):
    """For a model that has its features inside: its rows are the sound itself."""

    def __init__(self, description: StepDescription) -> None:
        super().__init__(description.name, description.features, {}, "cpu")
        self._description = description

    def new(self) -> FeatureStream:
        from pipelines.features.audio.hops import hop_extractor

        said = self._description
        assert said.features is not None and said.sample_rate is not None and said.samples is not None
        hop = said.features.hop
        return FeatureStream([hop_extractor(hop, said.sample_rate, said.samples)], hop)


def open_model(
    name: str | Path | None = None,
    *,
    device: str = "auto",
    weights: Mapping[str, str] | None = None,
    activation: ScoreKind | None = None,
    features: FeatureRequest | None = None,
    class_names: Sequence[str] | None = None,
    precision: Precision = "float32",
) -> StreamModel:
    """A model that is ready to stream: a built-in one by name, a checkpoint or an exported one by path.

        model = open_model("sound-events")            # `cotrans models` lists the names
        model = open_model("runs/mine/best.safetensors", device="cpu")
        model.class_names, model.window, model.features

    name: None: the user's default model. device: auto, cpu or cuda.
    weights: file by extractor ("": the only one that takes one), for networks whose weights are not known here.
    activation: softmax or sigmoid; None: what the checkpoint says, which is sigmoid after a binary loss for each class.

    features: what a model was trained on that does not say it itself, so that it plays media. class_names: others than
    the checkpoint's. precision: of the weights; float16 and int8 are faster on a CPU (docs/precision.md).

    Give it to `open_stream`; `model.model` is the `ContinualTransformer` itself, or the `OnnxStep`. A file that is not
    there raises InputError, one that cannot be used CheckpointError: both are a CotransError.
    """
    path = find_model(name if name is not None else load_settings().default_model or DEFAULT_MODEL)
    if activation not in (None, *SCORE_KINDS):
        raise UsageError(f"unknown activation '{activation}': choose from {', '.join(SCORE_KINDS)}")
    said: Checkpoint | StepDescription
    model: SteppingModel
    if path.suffix == SUFFIX:
        if device not in ("auto", "cpu"):
            raise UsageError(f"--device {device}: {path} is an exported model, which runs on the CPU: use auto or cpu")
        if precision != "float32":
            raise UsageError(f"--precision {precision}: {path} has the precision that it was exported in: leave it out")
        model = OnnxStep(path)
        said = model.description
    else:
        from pipelines.model.linear.packing import with_precision

        said = _load(path)
        model = with_precision(said.model.to(choose_device(device)).eval(), precision)
        for parameter in model.parameters():
            parameter.requires_grad_(False)
    spec, names = said.features, said.class_names
    if features is not None:
        if spec is not None:
            raise UsageError(f"{path} says that it takes {spec.name}: leave --features out")
        spec = fitting_spec(features, model.config.input_width)
    if class_names is not None:
        if len(class_names) != len(names):
            raise UsageError(f"--labels has {len(class_names)} names, but {path} has {len(names)} classes")
        names = tuple(class_names)
    streams = FeatureStreams(str(name or path.stem), spec, weights or {}, device)
    if isinstance(said, StepDescription) and said.samples is not None:
        streams = SoundStreams(said)
    return StreamModel(
        name=str(name or path.stem),
        files=(path, *map(Path, (weights or {}).values())),
        model=model,
        class_names=names,
        features=spec,
        score_kind=activation or said.score_kind,
        smoothing=said.smoothing,
        least=said.least,
        # These rules were fitted on the scores as the model was trained to give them.
        rejection=said.rejection if activation in (None, said.score_kind) else None,
        order=said.order if activation in (None, said.score_kind) else None,
        feature_streams=streams,
    )


def _load(path: Path) -> Checkpoint:
    from pipelines.checkpoints.checkpoint import load_checkpoint
    from pipelines.checkpoints.foreign_files.source_file import file_kind

    if file_kind(path) != "cotrans":
        raise CheckpointError(
            f"{path} is a model of another project, which does not run step by step: run `cotrans convert {path}` first"
        )
    return load_checkpoint(path)
