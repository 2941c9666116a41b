"""A linear reading of every row, averaged over the window, beside what the encoder says.

On few clips a transformer learns the clips by heart, where a linear model of their mean does not: so a model may have
both. Its answer is a mean of the two (of logarithms of probabilities), weighed by the reading's share. What is read of
each row is linear, so the mean over the window of what is read is what is read of the window's mean. `train` fits it
before its first epoch (`training/fitting/reading.py`); the encoder learns without it, for beside a reading that knows
all training clips there would be nothing left to learn.

How much evidence there is for any class at all, log Σ exp of the logits, is the encoder's. With `reading_evidence` one
more number is read, which is added to it: how much more likely the window is one of what the model knows than foreign
(`training/none_of_these/read_evidence.py` fits it). An encoder that learned to tell the classes apart has forgotten
what tells noise from all of them; its features have not.

The sums run in 64 bits, so that step, chunk and window agree.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipelines.model.attention.ring import Cursor
from pipelines.model.linear.projection import Projection
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.moving_sums import moving_sums, unrolled


class ReadingState(NamedTuple):
    """What was read of the last n rows, in ring order."""

    read: Tensor  # (B, n, `ModelConfig.read_width`); zeros before the first step


class Reading(nn.Module):
    """The linear layer, and the mean of what it reads."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.rows, self.share = config.window, config.reading
        self.classes, self.evidence = config.classes, config.reading_evidence
        self.linear = Projection(config.input_width, config.read_width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.requires_grad_(False)

    def empty(self, batch_size: int, like: Tensor) -> ReadingState:
        """Before the first row."""
        return ReadingState(like.new_zeros(batch_size, self.rows, self.linear.out_features))

    def step_(self, logits: Tensor, token: Tensor, state: ReadingState, cursor: Cursor) -> Tensor:
        """The answer (B, classes) to one row (B, input_width). `state` is written in place."""
        cursor.write_row(state.read, self.linear.project(token))
        count = torch.as_tensor(cursor.count, device=logits.device).view(-1, 1)
        return self._joined(logits, state.read.sum(dim=1, dtype=torch.float64) / count)

    def steps(
        self, logits: Tensor, tokens: Tensor, state: ReadingState, position: Tensor
    ) -> tuple[Tensor, ReadingState]:
        """T answers (B, T, classes) at once: the same as T times `step_`. position: (B,) rows before them."""
        every, ring = unrolled(state.read, self.linear.project(tokens), position)
        seen = position.unsqueeze(1) + torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        means = moving_sums(every, self.rows) / seen.clamp(max=self.rows).unsqueeze(-1)
        return self._joined(logits, means), ReadingState(ring)

    def newest(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """The answer (B, classes) to the newest of tokens (B, T, input_width), of which the last n count."""
        read = self.linear.project(tokens[:, -self.rows :])
        return self._joined(logits, read.sum(dim=1, dtype=torch.float64) / read.shape[1])

    def at(self, logits: Tensor, tokens: Tensor, streams: Tensor, lasts: Tensor) -> Tensor:
        """The answers (K, classes) to windows of tokens (B, T, input_width): see `ContinualTransformer.windows`."""
        read = self.linear.project(tokens)
        every = torch.cat([read.new_zeros(read.shape[0], self.rows, read.shape[2]), read], dim=1)
        counts = (lasts + 1).clamp(max=self.rows).unsqueeze(-1)
        return self._joined(logits, moving_sums(every, self.rows)[streams, lasts] / counts)

    def _joined(self, logits: Tensor, means: Tensor) -> Tensor:
        """(…, classes) of the encoder, and what was read on average (…, read_width), float64."""
        evidence = logits.logsumexp(dim=-1, keepdim=True)
        if self.evidence:
            evidence = evidence + means[..., self.classes :].to(logits.dtype)
            means = means[..., : self.classes]
        read = torch.log_softmax(means, dim=-1).to(logits.dtype)
        joined = torch.lerp(logits, read, self.share)
        return torch.log_softmax(joined, dim=-1) + evidence
