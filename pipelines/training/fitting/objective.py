"""The loss of a batch, by one banded pass or by the regular model on windows: the same numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pipelines.model.continual_model import ContinualModel
from pipelines.training.fitting.losses import frame_losses, weighted_sum
from pipelines.training.samples.batching import Batch
from pipelines.training.samples.sampling import Mode


@dataclass(frozen=True)
class Objective:
    """How a batch becomes a loss."""

    mode: Mode
    loss: Literal["cross-entropy", "binary"]
    label_smoothing: float = 0.0
    anticipation: float = 0.5
    bfloat16: bool = False  # matrix products in 16 bits; losses are computed in 32
    none: bool = False  # whether "none of these" is an implicit class, of recordings without one

    def weights(self, batch: Batch) -> Tensor:
        """(2,) float64: weight of the labelled frames and of the anticipated ones."""
        future = batch.future_weight
        coming = torch.zeros((), device=batch.weight.device) if future is None else future.sum()
        return torch.stack([batch.weight.sum(), coming]).double()

    def loss_of(self, model: ContinualModel, batch: Batch, weights: Tensor) -> Tensor:
        """This batch's share of the loss, where `weights` are those of the whole (global) batch."""
        with torch.autocast(batch.tokens.device.type, torch.bfloat16, enabled=self.bfloat16):
            return self._loss_of(model, batch, weights)

    def _loss_of(self, model: ContinualModel, batch: Batch, weights: Tensor) -> Tensor:
        if self.mode == "chunk":
            return self._chunk_loss(model, batch) / _divisor(weights[0])
        loss, coming = self._window_losses(model, batch)
        loss = loss / _divisor(weights[0])
        if model.decoder is not None:
            loss = loss + self.anticipation * coming / _divisor(weights[1])
        return loss

    def _chunk_loss(self, model: ContinualModel, batch: Batch) -> Tensor:
        state = model.initial_state(batch.tokens.shape[0], batch.start)
        logits, _ = model.steps(batch.tokens, state)
        losses = frame_losses(
            logits.float().flatten(0, 1), batch.targets.flatten(0, 1), self.loss, self.label_smoothing, self.none
        )
        return weighted_sum(losses, batch.weight.flatten())

    def _window_losses(self, model: ContinualModel, batch: Batch) -> tuple[Tensor, Tensor]:
        """Only the last token of each sample has a loss here. Windows of one length go together."""
        total = batch.tokens.new_zeros(())
        coming = batch.tokens.new_zeros(())
        for length in sorted(set(batch.lengths)):
            rows = [row for row, own in enumerate(batch.lengths) if own == length]
            tokens, start = batch.tokens[rows, :length], batch.start[rows]
            if model.decoder is None:
                logits = model(tokens, start)
            else:
                logits, anticipation = model.predict(tokens, start)
                coming = coming + self._anticipation_loss(anticipation, batch, rows)
            wanted = batch.targets[rows, length - 1]
            losses = frame_losses(logits.float(), wanted, self.loss, self.label_smoothing, self.none)
            total = total + weighted_sum(losses, batch.weight[rows, length - 1])
        return total, coming

    def _anticipation_loss(self, anticipation: Tensor, batch: Batch, rows: list[int]) -> Tensor:
        """anticipation: (B, queries, classes) logits of the coming frames."""
        if batch.future is None or batch.future_weight is None:
            raise ValueError("a model with a decoder needs batches with the targets of coming frames")
        targets, weight = batch.future[rows].flatten(0, 1), batch.future_weight[rows].flatten()
        return weighted_sum(
            frame_losses(anticipation.float().flatten(0, 1), targets, self.loss, self.label_smoothing), weight
        )


def _divisor(weight: Tensor) -> float:
    """A batch in which every frame is ambiguous has no loss, rather than 0 / 0."""
    return max(float(weight), torch.finfo(torch.float32).tiny)
