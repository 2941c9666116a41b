"""The stream session: the one object that owns the changing state of a model's streams."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pipelines.errors import NonFiniteInputError
from pipelines.exporting.runtime import OnnxStep
from pipelines.streaming.predicting.engine import StepEngine, SteppingModel, Values
from pipelines.streaming.predicting.onnx_engine import OnnxEngine

if TYPE_CHECKING:
    from pipelines.model.state import StreamState


class StreamSession:
    """Several streams as rows of one batch. Rows that have no token in a step keep their state.

    The size of the batch stays the same for as long as the session lives: the same products are computed in the same
    way, whether the other rows are still there or not (in large batches of which few rows have a token, to rounding).
    """

    def __init__(self, model: SteppingModel, rows: int = 1) -> None:
        self.model = model
        self.rows = rows
        self._engine = open_engine(model, rows)
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
        has seen nothing else for as long as it remembers, starts again; one that remembers nothing has no need to.
        """
        for row, token in tokens.items():
            self._tokens[row] = token
        try:
            scores = self._engine.step(self._tokens, list(tokens) if len(tokens) < self.rows else None)
        except NonFiniteInputError:
            for row in tokens:
                self._tokens[row] = 0.0
            raise
        for row, token in tokens.items():
            self._seen[row] += 1
            self._recent[row].append(token)
            self._blind[row] = 0 if np.isfinite(scores[row]).all() else self._blind[row] + 1
        if self._reach != 1:  # else there is nothing to forget
            lost = [row for row in tokens if self._blind[row] and self._blind[row] >= (self._reach or 1)]
            if lost:
                self.restart(lost)
        return {row: scores[row].copy() for row in tokens}

    def steps(self, row: int, tokens: Values) -> tuple[Values, list[int]]:
        """The next tokens (T, input_width) of one row -> raw scores (T, classes): as T times `step`, in one pass.

        Beside them what `seen` is after each: the window may start again in between. The pass is of this row alone, so
        its numbers do not depend on what the others do. NaN or infinity raises NonFiniteInputError, and no state is
        changed.
        """
        scores = self._engine.steps(row, tokens)
        if scores is None:  # in a chunk, what is too large spreads to rows whose window it is not in
            single = [(self.step({row: token})[row], self._seen[row]) for token in tokens]
            return np.stack([answer for answer, _ in single]), [seen for _, seen in single]
        before = self._seen[row]
        self._blind[row] = 0
        self._seen[row] += len(tokens)
        self._recent[row].extend(tokens)
        return scores, list(range(before + 1, self._seen[row] + 1))

    def seen(self, row: int) -> int:
        """Tokens of a row since its window last started."""
        return self._seen[row]

    def warming_up(self, row: int) -> bool:
        """Whether the row has seen fewer tokens than its window holds."""
        return self._seen[row] < self.model.config.warm_up

    def restart(self, rows: Sequence[int]) -> None:
        """Set rows back to before their first token."""
        self._engine.restart(rows)
        for row in rows:
            self._seen[row] = 0
            self._recent[row].clear()
            self._blind[row] = 0

    def late(self, row: int) -> list[Values]:
        """Raw scores (classes,) about the last tokens of a row, up to `lag`, if nothing more comes; oldest first."""
        if not self._recent[row]:
            return []
        tokens = np.stack(self._recent[row])
        return self._engine.late(row, tokens, self._seen[row] - len(tokens))

    def recent(self, row: int) -> list[Values]:
        """The tokens that `late` would need, for a snapshot."""
        return list(self._recent[row])

    def snapshot(self) -> StreamState:
        """A copy of the state, which further steps do not change."""
        return self._engine.snapshot()

    def restore(self, state: StreamState, recent: Mapping[int, Sequence[Values]] | None = None) -> None:
        """Go on from a state of the same number of rows. recent: what `recent` gave for some of them."""
        self._seen = self._engine.restore(state)
        for row, tokens in (recent or {}).items():
            self._recent[row].extend(tokens)


def open_engine(model: SteppingModel, rows: int) -> StepEngine:
    """The engine for a model. Only that of a `ContinualModel` needs PyTorch."""
    if isinstance(model, OnnxStep):
        return OnnxEngine(model, rows)
    from pipelines.streaming.predicting.torch_engine import TorchEngine

    return TorchEngine(model, rows)
