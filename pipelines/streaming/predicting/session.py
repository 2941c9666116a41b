"""The stream session: the one object that owns the changing state of a model's streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.errors import NonFiniteInputError
from pipelines.model.continual_model import ContinualModel
from pipelines.model.state import StreamState
from pipelines.running.passes import late_pass

Values = NDArray[np.float32]


class StreamSession:
    """Several streams as rows of one batch. Rows that have no token in a step keep their state.

    The size of the batch stays the same for as long as the session lives: the same products are computed in the same
    way, whether the other rows are still there or not.
    """

    def __init__(self, model: ContinualModel, rows: int = 1) -> None:
        self.model = model
        self.rows = rows
        self._device, self._dtype = model.device, model.dtype
        with torch.inference_mode():
            self._state = model.initial_state(rows)
        self._tokens = np.zeros((rows, model.config.input_width), np.float32)
        self._seen = [0] * rows
        # What the last answers of a model with a lag depend on: as many tokens as an output reaches back to.
        self._reach = model.config.receptive_field
        kept = self._reach if model.config.lag else 0
        self._recent: list[deque[Values]] = [deque(maxlen=kept) for _ in range(rows)]
        self._blind = [0] * rows  # steps in a row whose scores were not finite

    def step(self, tokens: Mapping[int, Values]) -> dict[int, Values]:
        """A token (input_width,) for some rows -> raw scores (classes,) for the same rows.

        NaN or infinity raises NonFiniteInputError with the rows, and no state is changed. A finite token may still be
        too large: then scores are not finite until it has left the window. A model that never forgets, or a row that
        has seen nothing else for as long as it remembers, starts again.
        """
        for row, token in tokens.items():
            self._tokens[row] = token
        with torch.inference_mode():
            batch = torch.from_numpy(self._tokens).to(self._device, self._dtype)
            active = None
            if len(tokens) < self.rows:
                active = torch.zeros(self.rows, dtype=torch.bool)
                active[list(tokens)] = True
                active = active.to(self._device)
            try:
                logits, self._state = self.model.step_(batch, self._state, active)
            except NonFiniteInputError:
                for row in tokens:
                    self._tokens[row] = 0.0
                raise
            scores = logits.to("cpu", torch.float32).numpy()
        for row, token in tokens.items():
            self._seen[row] += 1
            self._recent[row].append(token)
            self._blind[row] = 0 if np.isfinite(scores[row]).all() else self._blind[row] + 1
        if lost := [row for row in tokens if self._blind[row] and self._blind[row] >= (self._reach or 1)]:
            self.restart(lost)
        return {row: scores[row].copy() for row in tokens}

    def steps(self, row: int, tokens: Values) -> Values:
        """The next tokens (T, input_width) of one row -> raw scores (T, classes): as T times `step`, in one pass.

        The pass is of this row alone, so its numbers do not depend on what the others do. NaN or infinity raises
        NonFiniteInputError, and no state is changed.
        """
        with torch.inference_mode():
            chunk = torch.from_numpy(tokens).to(self._device, self._dtype).unsqueeze(0)
            state = self._state if self.rows == 1 else self._state.select([row])
            logits, state = self.model.steps(chunk, state)
            scores = logits[0].to("cpu", torch.float32).numpy()
            if not np.isfinite(scores).all():
                # In a chunk, what is too large spreads to rows whose window it is not in.
                return np.stack([self.step({row: token})[row] for token in tokens])
            self._state = state if self.rows == 1 else self._state.put_([row], state)
        self._blind[row] = 0
        self._seen[row] += len(tokens)
        self._recent[row].extend(tokens)
        return np.asarray(scores)

    def seen(self, row: int) -> int:
        """Tokens of a row since its window last started."""
        return self._seen[row]

    def warming_up(self, row: int) -> bool:
        """Whether the row has seen fewer tokens than its window holds."""
        return self._seen[row] < self.model.config.warm_up

    def restart(self, rows: Sequence[int]) -> None:
        """Set rows back to before their first token."""
        with torch.inference_mode():
            self._state = self.model.reset_(self._state, list(rows))
        for row in rows:
            self._seen[row] = 0
            self._recent[row].clear()
            self._blind[row] = 0

    def late(self, row: int) -> list[Values]:
        """Raw scores (classes,) about the last tokens of a row, up to `lag`, if nothing more comes; oldest first."""
        if not self._recent[row]:
            return []
        tokens = torch.from_numpy(np.stack(self._recent[row])).to(self._device, self._dtype)
        with torch.inference_mode():
            outputs = late_pass(self.model, [tokens], [self._seen[row] - len(tokens)])
        return list(outputs[0].logits)

    def recent(self, row: int) -> list[Values]:
        """The tokens that `late` would need, for a snapshot."""
        return list(self._recent[row])

    def snapshot(self) -> StreamState:
        """A copy of the state, which further steps do not change."""
        with torch.inference_mode():
            return self._state.clone()

    def restore(self, state: StreamState, recent: Mapping[int, Sequence[Values]] | None = None) -> None:
        """Go on from a state of the same number of rows. recent: what `recent` gave for some of them."""
        assert state.batch_size == self.rows
        with torch.inference_mode():
            self._state = state.map(lambda tensor: tensor.to(self._device).clone())
        self._seen = state.position.tolist()
        for row, tokens in (recent or {}).items():
            self._recent[row].extend(tokens)
