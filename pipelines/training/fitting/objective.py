"""The loss of a batch, by one banded pass or by the regular model on windows, apart or shared: the same numbers."""

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
    stride: int = 1  # shared windows: frames from one to the next
    late: float = 0.0  # chunks: share of steps with a smaller lag, as when a recording ends

    def weights(self, batch: Batch) -> Tensor:
        """(2,) float64: weight of the labelled frames and of the anticipated ones."""
        labelled, future = batch.weight, batch.future_weight
        if self.mode == "shared":
            places = self._shared_places(batch)
            labelled, future = batch.weight[places], _coming(batch, *places)[1]
        coming = torch.zeros((), device=batch.weight.device) if future is None else future.sum()
        return torch.stack([labelled.sum(), coming]).double()

    def loss_of(self, model: ContinualModel, batch: Batch, weights: Tensor) -> Tensor:
        """This batch's share of the loss, where `weights` are those of the whole (global) batch."""
        with torch.autocast(batch.tokens.device.type, torch.bfloat16, enabled=self.bfloat16):
            return self._loss_of(model, batch, weights)

    def _loss_of(self, model: ContinualModel, batch: Batch, weights: Tensor) -> Tensor:
        if self.mode == "chunk":
            return self._chunk_loss(model, batch) / _divisor(weights[0])
        losses_of = self._shared_losses if self.mode == "shared" else self._window_losses
        loss, coming = losses_of(model, batch)
        loss = loss / _divisor(weights[0])
        if model.decoder is not None:
            loss = loss + self.anticipation * coming / _divisor(weights[1])
        return loss

    def _chunk_loss(self, model: ContinualModel, batch: Batch) -> Tensor:
        model, sooner = self._drawn_lag(model, batch.tokens.shape[1])
        state = model.initial_state(batch.tokens.shape[0], batch.start)
        logits, _ = model.steps(batch.tokens, state)
        # What is said of a row so many steps sooner; of the last rows nobody hears what would have followed.
        logits, targets = logits[:, : logits.shape[1] - sooner], batch.targets[:, sooner:]
        losses = frame_losses(
            logits.float().flatten(0, 1), targets.flatten(0, 1), self.loss, self.label_smoothing, self.none
        )
        return weighted_sum(losses, batch.weight[:, sooner:].flatten())

    def _drawn_lag(self, model: ContinualModel, length: int) -> tuple[ContinualModel, int]:
        """The model, in a share `late` of all steps with a smaller lag, and by how much it is smaller."""
        lag = model.config.lag
        if not (self.late and 0 < lag < length) or float(torch.rand(())) >= self.late:
            return model, 0
        sooner = int(torch.randint(1, lag + 1, ()))
        return model.with_lag(lag - sooner), sooner

    def _shared_places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Sample and last token (K,) of the windows that have a loss: every `stride`-th back from a sample's end.

        Where every frame is ambiguous it is the first window, of weight 0: the parameters want a gradient all the same.
        """
        weight = batch.weight
        lengths = torch.tensor(batch.lengths, device=weight.device).unsqueeze(1)
        before_end = lengths - 1 - torch.arange(weight.shape[1], device=weight.device)
        streams, lasts = ((before_end % self.stride == 0) & (weight > 0)).nonzero(as_tuple=True)
        return (streams, lasts) if len(lasts) else (streams.new_zeros(1), lasts.new_zeros(1))

    def _shared_losses(self, model: ContinualModel, batch: Batch) -> tuple[Tensor, Tensor]:
        streams, lasts = self._shared_places(batch)
        logits, anticipation = model.windows(batch.tokens, batch.start, streams, lasts)
        wanted = batch.targets[streams, lasts]
        losses = frame_losses(logits.float(), wanted, self.loss, self.label_smoothing, self.none)
        coming = batch.tokens.new_zeros(())
        if anticipation is not None:
            targets, weight = _coming(batch, streams, lasts)
            if weight is None:
                raise ValueError(_NO_FUTURE)
            coming = self._anticipation_loss(anticipation, targets, weight)
        return weighted_sum(losses, batch.weight[streams, lasts]), coming

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
                if batch.future is None or batch.future_weight is None:
                    raise ValueError(_NO_FUTURE)
                targets, weight = batch.future[rows], batch.future_weight[rows]
                coming = coming + self._anticipation_loss(anticipation, targets, weight)
            wanted = batch.targets[rows, length - 1]
            losses = frame_losses(logits.float(), wanted, self.loss, self.label_smoothing, self.none)
            total = total + weighted_sum(losses, batch.weight[rows, length - 1])
        return total, coming

    def _anticipation_loss(self, anticipation: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
        """anticipation: (K, queries, classes) logits of the coming frames; targets the same, weight (K, queries)."""
        losses = frame_losses(
            anticipation.float().flatten(0, 1), targets.flatten(0, 1), self.loss, self.label_smoothing
        )
        return weighted_sum(losses, weight.flatten())


_NO_FUTURE = "a model with a decoder needs batches with the targets of coming frames"


def _coming(batch: Batch, streams: Tensor, lasts: Tensor) -> tuple[Tensor, Tensor | None]:
    """Targets (K, queries, classes) and weights (K, queries) of the frames after windows of a batch's samples.

    The first of them are in the sample itself. Weights are None where nothing is anticipated.
    """
    if batch.future is None or batch.future_weight is None:
        return batch.targets[streams, lasts].unsqueeze(1)[:, :0], None
    queries, lengths = batch.future.shape[1], torch.tensor(batch.lengths, device=lasts.device)
    place = lasts.unsqueeze(1) + torch.arange(1, queries + 1, device=lasts.device)
    rows, behind = streams.unsqueeze(1), place - lengths[streams].unsqueeze(1)
    inside = behind < 0
    place, behind = place.clamp(max=batch.weight.shape[1] - 1), behind.clamp(min=0)
    targets = torch.where(inside.unsqueeze(-1), batch.targets[rows, place], batch.future[rows, behind])
    return targets, torch.where(inside, batch.weight[rows, place], batch.future_weight[rows, behind])


def _divisor(weight: Tensor) -> float:
    """A batch in which every frame is ambiguous has no loss, rather than 0 / 0."""
    return max(float(weight), torch.finfo(torch.float32).tiny)
