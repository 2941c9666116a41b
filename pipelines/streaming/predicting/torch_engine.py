"""The engine that runs a model in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from pipelines.model.continual_model import ContinualModel
from pipelines.model.state import StreamState
from pipelines.running.passes import late_pass
from pipelines.streaming.predicting.engine import Values

# Rows from which on a step for half of them or less is worth taking them out of the state and putting them back.
# In smaller batches every step computes all rows: then no last bit depends on which of them have a token.
LARGE_BATCH = 16


class TorchEngine:
    """A `StepEngine` on the device of the model."""

    def __init__(self, model: ContinualModel, rows: int) -> None:
        self._model, self._rows = model, rows
        self._device, self._dtype = model.device, model.dtype
        with torch.inference_mode():
            self._state = model.initial_state(rows)
        self._expected: StreamState | None = None  # the state that the model knows its next steps are of

    def step(self, tokens: Values, active: Sequence[int] | None) -> Values:
        if self._expected is not self._state:
            self._model.expect(self._state)
            self._expected = self._state
        if active is not None and self._rows >= LARGE_BATCH and len(active) <= self._rows // 2:
            return self._step_of_few(tokens, active)
        with torch.inference_mode():
            batch = torch.from_numpy(tokens).to(self._device, self._dtype)
            mask = None
            if active is not None:
                mask = torch.zeros(self._rows, dtype=torch.bool)
                mask[list(active)] = True
                mask = mask.to(self._device)
            logits, self._state = self._model.step_(batch, self._state, mask)
            return np.asarray(logits.to("cpu", torch.float32).numpy())

    def _step_of_few(self, tokens: Values, active: Sequence[int]) -> Values:
        """`step` without the work of the rows that have no token."""
        scores = np.zeros((self._rows, self._model.config.classes), np.float32)
        with torch.inference_mode():
            batch = torch.from_numpy(tokens[list(active)]).to(self._device, self._dtype)
            logits = self._model.step_some_(batch, self._state, active)
            scores[list(active)] = logits.to("cpu", torch.float32).numpy()
        return scores

    def steps(self, row: int, tokens: Values) -> Values | None:
        with torch.inference_mode():
            chunk = torch.from_numpy(tokens).to(self._device, self._dtype).unsqueeze(0)
            state = self._state if self._rows == 1 else self._state.select([row])
            logits, state = self._model.steps(chunk, state)
            scores = np.asarray(logits[0].to("cpu", torch.float32).numpy())
            if not np.isfinite(scores).all():
                return None
            self._state = state if self._rows == 1 else self._state.put_([row], state)
            return scores

    def restart(self, rows: Sequence[int]) -> None:
        with torch.inference_mode():
            self._state = self._model.reset_(self._state, list(rows))

    def late(self, row: int, tokens: Values, before: int) -> list[Values]:
        with torch.inference_mode():
            recording = torch.from_numpy(tokens).to(self._device, self._dtype)
            return list(late_pass(self._model, [recording], [before])[0].logits)

    def snapshot(self) -> StreamState:
        with torch.inference_mode():
            return self._state.clone()

    def restore(self, state: StreamState) -> list[int]:
        assert state.batch_size == self._rows
        with torch.inference_mode():
            self._state = state.map(lambda tensor: tensor.to(self._device).clone())
        return [int(position) for position in state.position.tolist()]
