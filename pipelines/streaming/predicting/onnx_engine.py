"""The engine that runs an exported model in onnxruntime. Nothing but its snapshots needs PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipelines.errors import NonFiniteInputError
from pipelines.exporting.description import POSITION
from pipelines.exporting.runtime import OnnxStep, State
from pipelines.streaming.predicting.engine import Values

if TYPE_CHECKING:
    from pipelines.model.state import StreamState


class OnnxEngine:
    """A `StepEngine` for a file of `cotrans export`."""

    def __init__(self, step: OnnxStep, rows: int) -> None:
        self._step = step
        self._state = step.initial_state(rows)

    def step(self, tokens: Values, active: Sequence[int] | None) -> Values:
        _check_finite(tokens, active)
        scores, state = self._step(tokens, self._state)
        if active is not None:
            idle = np.setdiff1d(np.arange(len(tokens)), active)
            for name, tensor in state.items():
                tensor[idle] = self._state[name][idle]
        self._state = state
        return scores

    def steps(self, row: int, tokens: Values) -> Values | None:
        _check_finite(tokens, None)
        state = {name: tensor[row : row + 1] for name, tensor in self._state.items()}
        rows = []
        for token in tokens:
            scores, state = self._step(token[None], state)
            rows.append(scores[0])
        if not np.isfinite(rows).all():
            return None
        for name, tensor in state.items():
            self._state[name][row] = tensor[0]
        return np.stack(rows)

    def restart(self, rows: Sequence[int]) -> None:
        for tensor in self._state.values():
            tensor[list(rows)] = 0

    def late(self, row: int, tokens: Values, before: int) -> list[Values]:
        """Of a model without memory, whose answer is that to the last token. Others say no more: their lag is fixed."""
        description = self._step.description
        if description.window > 1:
            return []
        scores, _ = self._step(tokens[-1:], self._step.initial_state(1))
        return [scores[0]] * min(description.lag, len(tokens))

    def snapshot(self) -> StreamState:
        return stream_state({name: tensor.copy() for name, tensor in self._state.items()})

    def restore(self, state: StreamState) -> list[int]:
        (carried,) = state.blocks
        tensors = dict(zip(_names(self._state), (state.position, *(carried or ())), strict=True))
        self._state = {name: tensors[name].numpy().copy() for name in self._state}  # in the order of the graph
        return [int(position) for position in self._state[POSITION]]


def stream_state(state: State) -> StreamState:
    """The same memory in PyTorch's terms, as files of state hold it."""
    import torch

    from pipelines.model.state import StreamState

    position, *carried = (torch.from_numpy(state[name]) for name in _names(state))
    return StreamState(position, torch.zeros_like(position), (tuple(carried),), None)


def _names(state: State) -> list[str]:
    """In the order of a `StreamState`: the position, and the rest by name."""
    return [POSITION, *sorted(name for name in state if name != POSITION)]


def _check_finite(tokens: Values, active: Sequence[int] | None) -> None:
    broken = ~np.isfinite(tokens).all(axis=1)
    if active is not None:
        broken &= np.isin(np.arange(len(tokens)), active)
    if broken.any():
        raise NonFiniteInputError(np.flatnonzero(broken).tolist())
