"""What was named lately says what is likely now: answers weighed by the answers of the last rows.

Of the classes in which something happens, each gets a share: its part of all probability that such classes had in the
last m steps. The probability that something happens stays what it is; how it is divided between these classes is
weighed by their shares. Nothing is learned here, and training does without it: a loss on weighed answers would teach
the model to repeat itself.

The sums run in 64 bits, so that step, chunk and window agree.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pipelines.model.attention.ring import Cursor
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.moving_sums import moving_sums, unrolled


class RecallState(NamedTuple):
    """The answers of the last m steps, in ring order."""

    named: Tensor  # (B, m, classes) probabilities; zeros before the first step, and for the class of nothing


class Recall:
    """m answers and how they weigh the next."""

    def __init__(self, config: ModelConfig) -> None:
        self.rows, self.floor = config.recall, config.recall_floor
        self._classes = config.classes
        # The classes in which something happens stand before and behind the one in which nothing does.
        nothing = config.classes if config.background is None else config.background
        self._before, self._behind = slice(0, nothing), slice(nothing + 1, config.classes)

    def empty(self, batch_size: int, like: Tensor) -> RecallState:
        """Before the first answer."""
        return RecallState(like.new_zeros(batch_size, self.rows, self._classes))

    def step_(self, logits: Tensor, state: RecallState, cursor: Cursor) -> Tensor:
        """Weigh one answer (B, classes), with itself among those that are remembered. `state` is written in place."""
        cursor.write_row(state.named, self._named(logits))
        return self._weigh(logits, state.named.sum(dim=1, dtype=torch.float64))

    def steps(self, logits: Tensor, state: RecallState, position: Tensor) -> tuple[Tensor, RecallState]:
        """T answers (B, T, classes) at once: the same as T times `step_`. position: (B,) steps before them."""
        answers, ring = unrolled(state.named, self._named(logits), position)
        return self._weigh(logits, moving_sums(answers, self.rows)), RecallState(ring)

    def newest(self, logits: Tensor) -> Tensor:
        """The last of the answers (B, T, classes), weighed by the last m of them: (B, classes)."""
        answers = self._named(logits[:, -self.rows :])
        return self._weigh(logits[:, -1], answers.sum(dim=1, dtype=torch.float64))

    def _named(self, logits: Tensor) -> Tensor:
        """Probabilities (…, classes) without that of nothing."""
        probabilities = torch.softmax(logits, dim=-1)
        return torch.cat(
            [
                probabilities[..., self._before],
                torch.zeros_like(probabilities[..., self._before.stop : self._behind.start]),
                probabilities[..., self._behind],
            ],
            dim=-1,
        )

    def _weigh(self, logits: Tensor, sums: Tensor) -> Tensor:
        """logits: (…, classes); sums: (…, classes) float64, of the probabilities that were named."""
        share = sums / sums.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(sums.dtype).tiny)
        weighed = logits + torch.log(share + self.floor).to(logits.dtype)
        happening = self._happening(logits) - self._happening(weighed)
        weighed = weighed + happening.unsqueeze(-1)
        nothing = slice(self._before.stop, self._behind.start)
        return torch.cat([weighed[..., self._before], logits[..., nothing], weighed[..., self._behind]], dim=-1)

    def _happening(self, logits: Tensor) -> Tensor:
        """log Σ exp over the classes in which something happens: (…, classes) to (…)."""
        parts = [logits[..., self._before], logits[..., self._behind]]
        return torch.logsumexp(torch.cat(parts, dim=-1), dim=-1)
