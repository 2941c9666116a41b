"""The proof: the converted model, step by step, against the regular source model on the window of each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pipelines.checkpoints.foreign_files.imported import Outputs, Reference, StreamReference
from pipelines.model.base_config import BaseConfig
from pipelines.model.continual_model import ContinualModel

LIMIT = 1e-4  # relative difference above which a conversion is refused
PROOF_WINDOWS = 6  # steps of the proof, in windows: far past the point where rings have wrapped
LONG_WINDOW = 1024  # tokens: a proof of a longer one goes on for 256 steps after it is full
_MOST_COMPARED = 2000  # steps
_ROUNDED = 400  # steps over which rounding is measured
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
    window = config.window
    length = PROOF_WINDOWS * window if window <= LONG_WINDOW else window + 256
    shape = (length, config.input_width)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@torch.inference_mode()
def prove(model: ContinualModel, reference: Reference, stream: Tensor, progress: Progress | None = None) -> Proof:
    """Compare at every step of a stream (T, input_width), warm-up included; of a very long one, at many of them."""
    worst = (-1.0, 0)
    largest = 0.0
    compared = compared_steps(stream.shape[0])
    theirs = _outputs(reference, stream, compared, model.config.window)
    chosen = frozenset(compared)
    for number, ours in enumerate(_steps(model, stream)):
        if number in chosen:
            relative, absolute = _difference(ours, next(theirs))
            largest = max(largest, absolute)
            worst = max(worst, (relative, -number))
        if progress is not None:
            progress(number + 1, stream.shape[0])
    relative, place = worst
    return Proof(len(compared), relative, largest, 1 - place)


@torch.inference_mode()
def rounding(model: ContinualModel, exact: ContinualModel, stream: Tensor) -> float:
    """How far the steps of a model are from those of its copy in float64, over the beginning of a stream."""
    stream = stream[:_ROUNDED]
    pairs = zip(_steps(model, stream), _steps(exact, stream.double()), strict=True)
    return max(_difference(Outputs(ours.logits.double(), None), theirs)[0] for ours, theirs in pairs)


def compared_steps(length: int) -> Sequence[int]:
    """The steps of a stream that are compared: all, or of more than 2,000 the first, the last and some others."""
    if length <= _MOST_COMPARED:
        return range(length)
    edge = _MOST_COMPARED // 20
    # A prime, so that every phase of a memory that samples is met.
    return sorted({*range(edge), *range(0, length, 11), *range(length - edge, length)})


@torch.inference_mode()
def distance(model: ContinualModel, reference: Reference, stream: Tensor, features: str) -> Distance:
    """How far the scores are from those of another model, over a stream (T, input_width)."""
    compared = range(stream.shape[0])
    theirs = _outputs(reference, stream, compared, model.config.window)
    pairs = list(zip(_steps(model, stream), theirs, strict=True))
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


def _outputs(reference: Reference, stream: Tensor, steps: Sequence[int], window: int) -> Iterator[Outputs]:
    """The regular model's outputs at the given steps."""
    if isinstance(reference, StreamReference):
        return reference.along(stream, steps)
    chosen = frozenset(steps)
    return (outputs for step, outputs in enumerate(_windows(reference, stream, window)) if step in chosen)


def _windows(reference: Reference, stream: Tensor, window: int) -> Iterator[Outputs]:
    """The regular model's outputs on the last min(t, n) tokens, for every t."""
    length = stream.shape[0]
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
