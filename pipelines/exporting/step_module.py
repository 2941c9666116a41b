"""One step as a function of tensors alone: a row, the position and the state in, scores and the new state out.

Every tensor of the state is batch-first and begins as zeros, so that whoever runs the graph needs to know names and
shapes only. Where a model's own state begins as something else (a class token's key), the graph puts it in at the first
step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pipelines.exporting.description import ANTICIPATION, NEW, POSITION, SCORES, TOKEN
from pipelines.model.continual_model import ContinualModel
from pipelines.model.state import StreamState, flat_tensors


class Signature(NamedTuple):
    """Names of what goes in and comes out, in order."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class StepModule(nn.Module):
    """`model.step` with its state spelled out."""

    def __init__(self, model: ContinualModel) -> None:
        super().__init__()
        self.model = model
        with torch.no_grad():
            self._initial = model.traced_state(1)
        self._names = _state_names(self._initial)
        self._begins_as_zeros = [not bool(tensor.any()) for tensor in flat_tensors(self._initial.blocks)]
        self._anticipates = model.decoder is not None

    @property
    def signature(self) -> Signature:
        """What `forward` takes and returns."""
        states = (POSITION, *(name for name in self._names if name is not None))
        scores = (SCORES, ANTICIPATION) if self._anticipates else (SCORES,)
        return Signature((TOKEN, *states), (*scores, *(NEW + name for name in states)))

    def zeros(self, batch_size: int) -> tuple[Tensor, ...]:
        """The arguments of a first step: a row of zeros, and the state before it."""
        token = torch.zeros(batch_size, self.model.config.input_width, dtype=self.model.dtype)
        named = zip(self._names, flat_tensors(self._initial.blocks), strict=True)
        carried = [tensor.new_zeros(batch_size, *tensor.shape[1:]) for name, tensor in named if name is not None]
        return (token, torch.zeros(batch_size, dtype=torch.long), *carried)

    def forward(self, token: Tensor, position: Tensor, *carried: Tensor) -> tuple[Tensor, ...]:
        """token (B, input_width), position (B,) int64 and the carried state, to what `signature` says."""
        state = self._state(position, carried)
        scores: tuple[Tensor, ...]
        if self._anticipates:
            scores, state = self.model.step_predict_(token, state)
        else:
            logits, state = self.model.step_(token, state)
            scores = (logits,)
        after = zip(self._names, flat_tensors(state.blocks), strict=True)
        return (*scores, state.position, *(tensor for name, tensor in after if name is not None))

    def _state(self, position: Tensor, carried: tuple[Tensor, ...]) -> StreamState:
        given = iter(carried)
        tensors = [position, torch.zeros_like(position)]  # a stream begins at index 0
        initial = flat_tensors(self._initial.blocks)
        for name, first, zeros in zip(self._names, initial, self._begins_as_zeros, strict=True):
            if name is None:
                tensors.append(first.expand(position.shape[0], *first.shape[1:]))
            elif zeros:
                tensors.append(next(given))
            else:
                begins = (position == 0).view(-1, *[1] * (first.dim() - 1))
                tensors.append(torch.where(begins, first, next(given)))
        filled = iter(tensors)
        return self._initial.map(lambda _: next(filled).clone())  # a step writes into its state


def _state_names(state: StreamState) -> list[str | None]:
    """Field and number of the block for each tensor of the blocks (`key_0`); None for those that hold no number."""
    names: list[str | None] = []
    for index, block in enumerate(state.blocks):
        names += [f"{field}_{index}" if tensor.numel() else None for field, tensor in _fields(block)]
    return names


def _fields(value: Any) -> Iterator[tuple[str, Tensor]]:
    """Names and tensors of named tuples, those inside of others too."""
    for field, item in () if value is None else zip(value._fields, value, strict=True):
        if isinstance(item, Tensor):
            yield field, item
        else:
            yield from _fields(item)
