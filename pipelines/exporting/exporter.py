"""From a model to a file for other runtimes, checked before it is kept: what `cotrans export` runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from pipelines.checkpoints.builtin import find_model
from pipelines.checkpoints.checkpoint import Checkpoint, load_checkpoint
from pipelines.errors import CheckpointError, UsageError
from pipelines.exporting.description import StepDescription
from pipelines.exporting.onnx_graph import DEFAULT_OPSET, check_opset, onnx_graph, require_onnx, shorten_weights
from pipelines.exporting.runtime import OnnxStep, State
from pipelines.exporting.sound_module import SoundStepModule
from pipelines.exporting.sound_source import random_sound, sound_features
from pipelines.exporting.step_module import Signature, StepModule
from pipelines.exporting.torch_program import TorchRunner, save_program
from pipelines.exporting.tracing import traced
from pipelines.exporting.verification import OnProgress, Runner, Source, Values, Verification, verify
from pipelines.files import atomic_write, check_writable, refuse_overwriting
from pipelines.model.continual_model import ContinualModel
from pipelines.model.linear.packing import with_precision
from pipelines.model.precision import Precision, parse_precision

Format = Literal["onnx", "torch-export"]
FORMATS: tuple[Format, ...] = get_args(Format)
SOUND_TOLERANCE = 1e-4  # of scores with features inside: the extractor's spectra are float64, a graph's float32


@dataclass(frozen=True)
class ExportOptions:
    """What is written."""

    format: Format = "onnx"
    precision: Precision = "float32"
    opset: int | None = None  # of ONNX; None: 18
    with_features: bool = False  # sound in, scores out

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise UsageError(f"unknown --format '{self.format}': choose from {', '.join(FORMATS)}")
        parse_precision(self.precision)
        if self.opset is not None:
            if self.format != "onnx":
                raise UsageError(f"--opset is about ONNX, not about --format {self.format}: leave one of them out")
            check_opset(self.opset)
        if self.format == "torch-export" and self.precision != "float32":
            raise UsageError(f"--format torch-export writes float32: for {self.precision} use --format onnx")


@dataclass(frozen=True)
class Export:
    """A file that was written."""

    path: Path
    size: int  # bytes
    format: Format
    opset: int | None
    description: StepDescription
    signature: Signature
    verification: Verification

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "out": str(self.path),
            "bytes": self.size,
            "format": self.format,
            "opset": self.opset,
            "precision": self.description.precision,
            "inputs": list(self.signature.inputs),
            "outputs": list(self.signature.outputs),
            "steps": self.verification.steps,
            "batches": list(self.verification.batches),
            "difference": self.verification.relative,
            "tolerance": self.verification.tolerance,
            "same_class": self.verification.same_class,
        }


def export_model(
    model: str | Path, out: Path, options: ExportOptions | None = None, on_progress: OnProgress | None = None
) -> Export:
    """Write the step of a built-in model, a checkpoint or the best of a run. What fails its check is not kept."""
    options = options or ExportOptions()
    path = find_model(model)
    refuse_overwriting([("--out", out)], [path])
    check_writable(out, "--out")
    if options.format == "onnx":
        require_onnx()
    checkpoint = load_checkpoint(path)
    write = _export_onnx if options.format == "onnx" else _export_torch
    return write(checkpoint, str(model), out, options, on_progress)


def _export_onnx(
    checkpoint: Checkpoint, name: str, out: Path, options: ExportOptions, on_progress: OnProgress | None
) -> Export:
    import onnx

    opset = DEFAULT_OPSET if options.opset is None else options.opset
    model = checkpoint.model.float()
    step, description, source = _prepared(checkpoint, name, options)
    graph = onnx_graph(step, opset)
    if options.precision != "float32":
        shorten_weights(graph)
    with atomic_write(out) as temporary:
        _write(graph, description, temporary)
        verification = _verified(model, OnnxRunner(temporary), options, on_progress, source)
        description = replace(description, difference=verification.relative)
        _write(graph, description, temporary)
        onnx.checker.check_model(str(temporary))
    return Export(out, out.stat().st_size, "onnx", opset, description, step.signature, verification)


def _export_torch(
    checkpoint: Checkpoint, name: str, out: Path, options: ExportOptions, on_progress: OnProgress | None
) -> Export:
    model = checkpoint.model.float()
    step, description, source = _prepared(checkpoint, name, options)
    program = traced(step)
    with atomic_write(out) as temporary:
        save_program(program, description, temporary)
        verification = _verified(model, TorchRunner(temporary, step), options, on_progress, source)
        description = replace(description, difference=verification.relative)
        save_program(program, description, temporary)
    return Export(out, out.stat().st_size, "torch-export", None, description, step.signature, verification)


def _prepared(
    checkpoint: Checkpoint, name: str, options: ExportOptions
) -> tuple[StepModule, StepDescription, Source | None]:
    """What is traced, what the file says, and what it is compared on."""
    step = StepModule(with_precision(checkpoint.model, options.precision, portable=True))
    description = describe(checkpoint, name, options.precision)
    if not options.with_features:
        return step, description, None
    spec = sound_features(checkpoint.features)
    sound = SoundStepModule(step, spec)
    rate, samples = sound.features.sample_rate, sound.features.hop
    return sound, replace(description, sample_rate=rate, samples=samples), random_sound(spec, samples)


def _verified(
    model: ContinualModel, run: Runner, options: ExportOptions, on_progress: OnProgress | None, source: Source | None
) -> Verification:
    least = SOUND_TOLERANCE if options.with_features else 0.0
    verification = verify(model, run, options.precision, on_progress, source, least)
    verification.require()
    return verification


def describe(checkpoint: Checkpoint, name: str, precision: Precision) -> StepDescription:
    """What the file is to say about itself."""
    config = checkpoint.config
    return StepDescription(
        name=name,
        class_names=checkpoint.class_names,
        features=checkpoint.features,
        score_kind=checkpoint.score_kind,
        rejection=checkpoint.rejection,
        smoothing=checkpoint.smoothing,
        order=checkpoint.order,
        least=checkpoint.least,
        input_width=config.input_width,
        window=config.warm_up,
        lag=config.lag,
        receptive_field=config.receptive_field,
        precision=precision,
        config=config.to_json(),
    )


class OnnxRunner:
    """Runs a file as `verify` wants it."""

    def __init__(self, path: Path) -> None:
        self._step = OnnxStep(path)
        self._state: State = {}

    def __call__(self, tokens: Values, begins: bool) -> Values:
        state = self._step.initial_state(len(tokens)) if begins else self._state
        scores, self._state = self._step(tokens, state)
        return scores


def _write(graph: Any, description: StepDescription, path: Path) -> None:
    import onnx

    onnx.helper.set_model_props(graph, description.to_metadata())
    size = graph.ByteSize()
    if size >= onnx.checker.MAXIMUM_PROTOBUF:
        raise CheckpointError(
            f"the graph has {size:,} bytes, and an ONNX file at most {onnx.checker.MAXIMUM_PROTOBUF:,}"
        )
    path.write_bytes(graph.SerializeToString(deterministic=True))
