"""`cotrans convert`: read, map, prove, write. What is written has been compared with its source, step by step."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from pipelines import __version__
from pipelines.checkpoints.adaptation import deepen, drop_decoder, recycle
from pipelines.checkpoints.checkpoint import default_class_names, save_checkpoint, shape_text
from pipelines.checkpoints.foreign_files.imported import Hints, Imported, position_entries
from pipelines.checkpoints.opening import OpenedSource, open_source
from pipelines.checkpoints.output_path import output_path
from pipelines.checkpoints.projects.own_import import filled_model
from pipelines.checkpoints.proof import LIMIT, Distance, Progress, Proof, distance, prove, random_stream, rounding
from pipelines.costs.counting import count_macs
from pipelines.errors import CheckpointError, ConfigurationError, InputError, UsageError
from pipelines.features.feature_match import fitting_spec
from pipelines.features.files.npy_reader import read_npy
from pipelines.features.request import FeatureRequest
from pipelines.features.spec import FeatureSpec
from pipelines.files import file_sha256, unwritable
from pipelines.metrics.probabilities import ScoreKind
from pipelines.model.base_config import BaseConfig
from pipelines.model.continual_model import ContinualModel
from pipelines.model.transformer.config import ModelConfig

Mode = Literal["exact", "recycling", "deep"]


@dataclass(frozen=True)
class ConversionOptions:
    """What to make of a file."""

    mode: Mode = "exact"
    hints: Hints = field(default_factory=Hints)
    drop_decoder: bool = False
    class_names: tuple[str, ...] | None = None  # None: the file's, or "class 0", …
    output: Path | None = None  # None: beside the input
    force: bool = False  # overwrite
    verify: Path | None = None  # .npy of the user's own features (T, input_width)
    features: FeatureRequest | None = None  # what it was trained on, for files that do not say it: then it plays media


@dataclass(frozen=True)
class Conversion:
    """The report."""

    source: Path
    output: Path
    kind: str
    mode: Mode
    config: BaseConfig
    class_names: tuple[str, ...]
    mapped: Mapping[str, str]  # their key to ours
    dropped: Mapping[str, str]  # their key to the reason
    beside: tuple[str, ...]  # entries of the file that are not weights
    notes: tuple[str, ...]
    parameters: int
    macs_before: int  # per prediction, the regular model on a full window
    macs_after: int  # per prediction, one step
    state_bytes: int  # per stream
    proof: Proof
    verified: Proof | None  # on the user's own features
    source_difference: Distance | None  # not exact: how far the scores are from the source's before fine-tuning
    left_out: tuple[str, ...] = ()  # parts of the source that change its numbers, which the proof does not cover
    decoder_dropped: bool = False  # as the user wished: its classifier knows nothing of that yet
    own_source: bool = False  # the source is a checkpoint of ours: it ran step by step before
    already_continual: bool = False  # and nothing was to be changed: the output is a copy

    @property
    def next_command(self) -> str | None:
        """What to run before the model is of use; None: it can be used as it is."""
        if self.source_difference is None and not self.decoder_dropped:
            return None
        return f"cotrans train --init {self.output} --dataset DATASET --root FOLDER"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            **{name: getattr(self, name) for name in ("kind", "mode", "parameters", "macs_before", "macs_after")},
            "source": str(self.source),
            "output": str(self.output),
            "config": self.config.to_dict(),
            "class_names": list(self.class_names),
            "mapped": dict(self.mapped),
            "dropped": dict(self.dropped),
            "left_out": list(self.left_out),
            "beside": list(self.beside),
            "notes": list(self.notes),
            "already_continual": self.already_continual,
            "state_bytes": self.state_bytes,
            "next_command": self.next_command,
            "limit": LIMIT,
            "proof": asdict(self.proof),
            "verified": None if self.verified is None else asdict(self.verified),
            "source_difference": None if self.source_difference is None else asdict(self.source_difference),
        }


def convert(path: Path, options: ConversionOptions, progress: Progress | None = None) -> Conversion:
    """Convert a checkpoint and write it, if the proof holds; otherwise CheckpointError, and nothing is written."""
    target = output_path(path, options.output, options.force, options.verify)
    opened = open_source(path, _hints(options))
    imported = _adapted(opened.imported, options)
    model = filled_model(imported.config, imported.weights)
    asked = _asked_features(options, opened, imported.config.input_width)
    own_features = None if options.verify is None else _own_features(options.verify, model)
    names = options.class_names or imported.class_names or default_class_names(imported.config.classes)
    stream = random_stream(imported.config, model.classifier.weight.dtype)
    exact = copy.deepcopy(model).double() if imported.config.proven_in_float64 else model
    proof = _proven(exact, imported, stream, "random features", progress)
    verified = None if own_features is None else _proven(exact, imported, own_features, str(options.verify), progress)
    difference = None
    if options.mode != "exact":
        compared, of = (stream, "random features") if own_features is None else (own_features, str(options.verify))
        difference = distance(model, opened.imported.reference, compared, of)
    features, provenance = asked, _provenance(path, options, imported, proof)
    score_kind: ScoreKind = "softmax" if opened.own is None else opened.own.score_kind
    notes = [*imported.notes, *_advice(options, opened, imported.config, names)]
    if exact is not model and model.classifier.weight.dtype == torch.float32:
        notes.append(
            "the proof is in float64; steps run in float32, as the official program does, and are within "
            f"{rounding(model, exact, stream):.0e} relative of it on these features"
        )
    same = imported is opened.imported and asked is None
    copied = opened.own is not None and same and names == opened.own.class_names
    if opened.own is not None:
        features = asked or opened.own.features
        if copied:
            provenance = dict(opened.own.provenance)  # nothing was changed: the same file again
            notes.append(f"{path} is a continual model already: there was nothing to convert, {target} is a copy of it")
        else:
            provenance["before"] = dict(opened.own.provenance)
    conversion = Conversion(
        source=path,
        output=target,
        kind=imported.kind,
        mode=options.mode,
        config=imported.config,
        class_names=names,
        mapped=imported.mapped,
        dropped=imported.dropped,
        decoder_dropped=options.drop_decoder,
        beside=opened.beside,
        notes=tuple(notes),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        macs_before=_regular_macs(opened.imported, model),
        macs_after=_step_macs(model),
        state_bytes=model.initial_state(1).nbytes,
        proof=proof,
        verified=verified,
        source_difference=difference,
        left_out=imported.left_out,
        own_source=opened.own is not None,
        already_continual=copied,
    )
    try:
        if opened.own is None or imported is not opened.imported:
            save_checkpoint(target, model, names, features, provenance, score_kind)
        else:  # the scores are the same, and so are the rules that were made for them
            rules = opened.own.rejection, opened.own.smoothing, opened.own.order, opened.own.least
            save_checkpoint(target, model, names, features, provenance, score_kind, *rules)
    except OSError as error:
        raise InputError(unwritable(target, error)) from error
    return conversion


def _asked_features(options: ConversionOptions, opened: OpenedSource, width: int) -> FeatureSpec | None:
    """The specification of the features that the user names; refused where the file says its own."""
    if options.features is None:
        return None
    if opened.own is not None and opened.own.features is not None:
        raise UsageError(f"the file says that it takes {opened.own.features.name}: leave --features out")
    return fitting_spec(options.features, width)


def _hints(options: ConversionOptions) -> Hints:
    """What the user says about the file; unless the mode is exact, positions and encoding are about the result."""
    return options.hints if options.mode == "exact" else replace(options.hints, positions=None, encoding=None)


def _adapted(imported: Imported, options: ConversionOptions) -> Imported:
    if options.drop_decoder:
        imported = drop_decoder(imported)
    hints = options.hints
    recycled = hints.positions is not None or hints.encoding is not None
    if options.mode == "recycling" or (options.mode == "deep" and recycled):
        entries = position_entries(hints.positions, imported.config.window)
        imported = recycle(imported, entries, hints.encoding or "learned")
    return deepen(imported) if options.mode == "deep" else imported


def _proven(model: ContinualModel, imported: Imported, stream: Tensor, what: str, progress: Progress | None) -> Proof:
    proof = prove(model, imported.reference, stream.to(model.classifier.weight.dtype), progress)
    if not proof.holds:
        raise CheckpointError(
            f"the converted model is not the same: at step {proof.step} of {what} it differs by {proof.relative:.1e} "
            f"relative (limit {LIMIT:.0e}); nothing was written: what you said about the file (--norm, --activation, "
            "--heads, …) may not be so"
        )
    return proof


def _own_features(path: Path, model: ContinualModel) -> Tensor:
    """Features of the user's (T, input_width), from a .npy file."""
    try:
        array = read_npy(path)
    except InputError as error:
        raise InputError(f"--verify: {error}") from error
    width = model.config.input_width
    if array.ndim != 2 or not array.shape[0]:
        raise InputError(f"--verify: {path} is {shape_text(array.shape)}, not rows of features: give (rows, {width})")
    if array.shape[1] != width:
        raise ConfigurationError(
            f"--verify: {path} is {shape_text(array.shape)}, but the model takes (rows, {width}): give features of the "
            "kind that it was trained on"
        )
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise InputError(f"--verify: {path} has values that are not finite numbers: extract the features again")
    return torch.from_numpy(array.astype(np.float64)).to(model.classifier.weight.dtype)


@torch.inference_mode()
def _regular_macs(imported: Imported, model: ContinualModel) -> int:
    """MACs of the source's regular model for one prediction."""
    config = imported.config
    # What remembers everything in its state has no window to compute anew.
    length = 1 if config.receptive_field is None else config.window
    window = torch.zeros(1, length, config.input_width, dtype=model.classifier.weight.dtype)
    return count_macs(imported.reference, window, 0).total


@torch.inference_mode()
def _step_macs(model: ContinualModel) -> int:
    """MACs of one step in a full window."""
    stream = random_stream(model.config, model.classifier.weight.dtype, seed=1)[: model.config.window + 1]
    _, state = model.steps(stream[:-1].unsqueeze(0), model.initial_state(1))
    return count_macs(model.step_, stream[-1:], state).total


def _advice(options: ConversionOptions, opened: OpenedSource, config: BaseConfig, names: tuple[str, ...]) -> list[str]:
    advice = []
    if options.drop_decoder:
        advice.append("the decoder is left out, and the classifier has lost the part that read it: train it again")
    if options.mode == "recycling":
        advice.append("recycling positions change the model: fine-tune it before use")
    if options.mode == "deep":
        advice.append(
            "a deep stack is another model: each block keeps the keys and values that it was given; fine-tune it "
            "before use"
        )
        if isinstance(config, ModelConfig) and config.positional == "static":
            advice.append(
                "its static positions train one token at a time; with --positions 2n-1 they become recycling ones, "
                "which train in chunks"
            )
    if opened.own is None and names == default_class_names(len(names)):
        advice.append("the file does not name its classes: --labels FILE does")
    return advice


def _provenance(path: Path, options: ConversionOptions, imported: Imported, proof: Proof) -> dict[str, Any]:
    return {
        "source": path.name,
        "sha256": file_sha256(path),
        "kind": imported.kind,
        "mode": options.mode,
        "decoder_dropped": options.drop_decoder,
        "notes": list(imported.notes),
        "proof": asdict(proof),
        "converted_by": f"cotrans {__version__}",
    }
