"""The memories of LSTR as state: which frames are in them at a step, and what is kept of each.

The work memory of frame t begins at frame `start`, and the long memory samples every `rate`-th frame before that. So
there is one long memory for each phase start mod rate, and each step moves one of them on by one sample: frame
start - rate enters. A stream begins as if frame 0 had been there before: it is the first sample of every phase (in
phase 0, where it comes by itself one turn later, it does not enter twice). The first frames of a stream are the rows
of the first windows, so `start` stands still until the work memory is full.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pipelines.model.attention import query_sums
from pipelines.model.attention.query_sums import Exchange, QuerySums, Samples
from pipelines.model.lstr.config import LstrConfig


class LongState(NamedTuple):
    """The long memories of all phases. L samples in ring order; layers: those of the first module after its first."""

    pending: Tensor  # (B, span + rate, c) what frames bring with them that have not entered yet
    score: Tensor  # (B, rate, h, q, L) against the learned queries, without position
    value: Tensor  # (B, rate, h, L, w) in the first layer
    key_value: Tensor  # (B, rate, 2 · layers, h, L, w) keys and values in the others
    sums: QuerySums | None  # where no position changes a sample's weight


class WorkState(NamedTuple):
    """The work memory, in ring order, and encoded memories that are looked at again."""

    row: Tensor  # (B, span, d) frames after the feature head, without position
    projected: Tensor  # (B, span, c) what the decoder makes of them, without position
    encoded: Tensor  # (B, work rate, m, d); (B, 0, m, d) where every phase keeps its memory long enough


class Place(NamedTuple):
    """Where streams are: the frames that a step looks at. All (B,)."""

    frame: Tensor  # index of the newest frame
    row: Tensor  # its row in the work memory
    start: Tensor  # frame that the work memory begins at
    fresh: Tensor  # bool: whether there was no step with this start before
    entered: Tensor  # samples that the long memory of this phase has ever had, this step's included


def place(config: LstrConfig, frame: Tensor) -> Place:
    """What a step for these frames (B,) looks at."""
    rate = config.long_rate
    row = torch.clamp(frame // config.work_rate, max=config.work_samples - 1)
    start = frame - row * config.work_rate
    fresh = (frame < config.work_rate) | (frame >= config.work_samples * config.work_rate)
    turns = start // rate
    entered = torch.where((start % rate == 0) & (start > 0), turns, turns + 1)
    return Place(frame, row, start, fresh, entered)


def enter_(state: LongState, config: LstrConfig, brought: Tensor, at: Place, active: Tensor | None) -> None:
    """Take what a frame brings (B, c), and let the sample whose turn it is into the memory of its phase."""
    rows = torch.arange(brought.shape[0], device=brought.device)
    rate, waiting = config.long_rate, state.pending.shape[1]
    _write(state.pending, (rows, at.frame % waiting), brought, active)
    entering = at.fresh & (at.start != rate)
    if active is not None:
        entering = entering & active
    if not torch.compiler.is_compiling() and not bool(entering.any()):
        return
    sample = state.pending[rows, torch.clamp(at.start - rate, min=0) % waiting]
    score, value, key_value = _parts(state, sample)
    phase, slot = at.start % rate, (at.entered - 1) % config.long_samples
    old_score, old_value = state.score[rows, phase, :, :, slot], state.value[rows, phase, :, slot]
    _write(state.score, (rows, phase, slice(None), slice(None), slot), score, entering)
    _write(state.value, (rows, phase, slice(None), slot), value, entering)
    _write(state.key_value, (rows, phase, slice(None), slice(None), slot), key_value, entering)
    if state.sums is None:
        return
    exchange = Exchange(score, value, old_score, old_value, at.entered > config.long_samples)
    before = QuerySums(*(tensor[rows, phase] for tensor in state.sums))
    after = query_sums.exchanged(before, exchange, samples(state, config, at), config.decay)
    for tensor, new in zip(state.sums, after, strict=True):
        _write(tensor, (rows, phase), new, entering)


def samples(state: LongState, config: LstrConfig, at: Place) -> Samples:
    """The long memory of the phase that a step looks at."""
    rows = torch.arange(at.frame.shape[0], device=at.frame.device)
    phase = at.start % config.long_rate
    slots = torch.arange(config.long_samples, device=at.frame.device)
    age = (at.entered.unsqueeze(1) - 1 - slots) % config.long_samples
    present = age < at.entered.unsqueeze(1)
    return Samples(state.score[rows, phase], state.value[rows, phase], age, present)


def phase_sums(state: LongState, config: LstrConfig, at: Place) -> QuerySums:
    """The sums of the phase that a step looks at, (B, parts, h, q, …)."""
    if state.sums is None:
        raise TypeError("a long memory with positions has no sums")
    rows = torch.arange(at.frame.shape[0], device=at.frame.device)
    return QuerySums(*(tensor[rows, at.start % config.long_rate] for tensor in state.sums))


def remember_(state: WorkState, row: Tensor, projected: Tensor, at: Place, active: Tensor | None) -> None:
    """Write one frame (B, d) and its projections (B, c) into the work memory."""
    rows = torch.arange(row.shape[0], device=row.device)
    slot = at.frame % state.row.shape[1]
    _write(state.row, (rows, slot), row, active)
    _write(state.projected, (rows, slot), projected, active)


def work_rows(state: WorkState, config: LstrConfig, at: Place) -> tuple[Tensor, Tensor]:
    """Rows (B, W, d) and projections (B, W, c) of the work memory, oldest first; those after `at.row` mean nothing."""
    rows = torch.arange(at.frame.shape[0], device=at.frame.device).unsqueeze(1)
    steps = torch.arange(config.work_samples, device=at.frame.device) * config.work_rate
    slots = (at.start.unsqueeze(1) + steps) % state.row.shape[1]
    return state.row[rows, slots], state.projected[rows, slots]


def recalled_(state: WorkState, config: LstrConfig, memory: Tensor, at: Place, active: Tensor | None) -> Tensor:
    """The encoded memory (B, m, d) for `at.start`: as computed now, or as it was when its phase was there."""
    if not state.encoded.shape[1]:
        return memory
    rows = torch.arange(memory.shape[0], device=memory.device)
    slot = at.start % config.work_rate
    fresh = at.fresh if active is None else at.fresh & active
    _write(state.encoded, (rows, slot), memory, fresh)
    return torch.where(at.fresh.view(-1, 1, 1), memory, state.encoded[rows, slot])


def _parts(state: LongState, sample: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a frame brings (B, c): scores (B, h, q), value (B, h, w), further keys and values (B, 2 · layers, h, w)."""
    batch, _, heads, queries, _ = state.score.shape
    layers, width = state.key_value.shape[2], state.value.shape[-1]
    sizes = [heads * queries, heads * width, layers * heads * width]
    score, value, key_value = torch.split(sample, sizes, dim=1)
    return (
        score.view(batch, heads, queries),
        value.view(batch, heads, width),
        key_value.view(batch, layers, heads, width),
    )


def _write(tensor: Tensor, index: tuple[Tensor | slice, ...], value: Tensor, kept: Tensor | None) -> None:
    """tensor[index] = value for the streams of the mask `kept` (B,); None: for all."""
    value = value.to(tensor.dtype)
    if kept is not None:
        value = torch.where(kept.view(-1, *[1] * (value.dim() - 1)), value, tensor[index])
    tensor[index] = value
