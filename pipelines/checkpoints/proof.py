"""The proof: the converted model, step by step, against the regular source model on the window of each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pipelines.checkpoints.imported import Outputs, Reference
from pipelines.checkpoints.own_import import WholeReference
from pipelines.model.base_config import BaseConfig
from pipelines.model.continual_model import ContinualModel

LIMIT = 1e-4  # relative difference above which a conversion is refused
PROOF_WINDOWS = 6  # steps of the proof, in windows: far past the point where rings have wrapped
_BATCH = 16  # windows that the regular model takes at once

Progress = Callable[[int, int], None]  # steps done, steps in all


@dataclass(frozen=True)
class Proof:
    """The largest difference over a stream, at any step from the first on."""

    steps: int
    relative: float  # |ours - theirs| / the largest |theirs| of the same step
    absolute: float
    step: int  # where the relative difference is largest, counted from 1

    @property
    def holds(self) -> bool:
        return self.relative <= LIMIT


@dataclass(frozen=True)
class Distance(Proof):
    """How far a model that is meant to be another one is from its source."""

    mean: float  # of the relative differences of all steps
    same_class: float  # share of steps with the same class on top
    features: str  # what it was measured on


def random_stream(config: BaseConfig, dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Features for a proof: (6n, input_width), standard normal, the same every time."""
    generator = torch.Generator().manual_seed(seed)
    shape = (PROOF_WINDOWS * config.window, config.input_width)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@torch.inference_mode()
def prove(model: ContinualModel, reference: Reference, stream: Tensor, progress: Progress | None = None) -> Proof:
    """Compare at every step of a stream (T, input_width), warm-up included."""
    worst = Proof(stream.shape[0], 0.0, 0.0, 1)
    largest = 0.0
    steps = _steps(model, stream)
    for number, (ours, theirs) in enumerate(zip(steps, _windows(reference, stream, model.config.window), strict=True)):
        relative, absolute = _difference(ours, theirs)
        largest = max(largest, absolute)
        if relative > worst.relative:
            worst = Proof(stream.shape[0], relative, absolute, number + 1)
        if progress is not None:
            progress(number + 1, stream.shape[0])
    return Proof(worst.steps, worst.relative, largest, worst.step)


@torch.inference_mode()
def distance(model: ContinualModel, reference: Reference, stream: Tensor, features: str) -> Distance:
    """How far the scores are from those of another model, over a stream (T, input_width)."""
    pairs = list(zip(_steps(model, stream), _windows(reference, stream, model.config.window), strict=True))
    both = [_difference(Outputs(ours.logits, None), Outputs(theirs.logits, None)) for ours, theirs in pairs]
    relative = [share for share, _ in both]
    same = [bool(ours.logits.argmax() == theirs.logits.argmax()) for ours, theirs in pairs]
    largest = max(relative)
    return Distance(
        steps=len(pairs),
        relative=largest,
        absolute=max(absolute for _, absolute in both),
        step=relative.index(largest) + 1,
        mean=sum(relative) / len(pairs),
        same_class=sum(same) / len(pairs),
        features=features,
    )


def _steps(model: ContinualModel, stream: Tensor) -> Iterator[Outputs]:
    """Our outputs at every step."""
    state = model.initial_state(1)
    for token in stream.unsqueeze(1):
        if model.decoder is None:
            logits, state = model.step_(token, state)
            yield Outputs(logits, None)
        else:
            prediction, state = model.step_predict_(token, state)
            yield Outputs(*prediction)


def _windows(reference: Reference, stream: Tensor, window: int) -> Iterator[Outputs]:
    """The regular model's outputs on the last min(t, n) tokens, for every t."""
    length = stream.shape[0]
    if isinstance(reference, WholeReference):
        yield from (Outputs(logits.unsqueeze(0), None) for logits in reference.stream(stream))
        return
    for end in range(1, min(window, length + 1)):
        yield reference(stream[:end].unsqueeze(0), 0)
    if length < window:
        return
    windows = stream.unfold(0, window, 1).transpose(1, 2)  # (T - n + 1, n, input_width)
    for first in range(0, windows.shape[0], _BATCH):
        logits, anticipation = reference(windows[first : first + _BATCH], first)
        for row in range(logits.shape[0]):
            yield Outputs(logits[row : row + 1], None if anticipation is None else anticipation[row : row + 1])


def _difference(ours: Outputs, theirs: Outputs) -> tuple[float, float]:
    """Relative and absolute difference of one step, the larger of scores and anticipation."""
    relative = absolute = 0.0
    for mine, other in zip(ours, theirs, strict=True):
        if mine is None or other is None:
            continue
        difference = (mine - other).abs().max().item()
        size = other.abs().max().item()
        share = difference / size if size else difference
        # NaN compares as smaller than everything: what is not a number is infinitely wrong.
        relative = max(relative, share if math.isfinite(share) else math.inf)
        absolute = max(absolute, difference if math.isfinite(difference) else math.inf)
    return relative, absolute
