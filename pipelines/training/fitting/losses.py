"""Losses of frames, as sums: whoever calls divides by the weight of the whole batch, wherever it was computed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from pipelines.metrics.probabilities import ScoreKind
from pipelines.training.recipes.recipe import Loss


def frame_losses(
    logits: Tensor, targets: Tensor, loss: Loss, label_smoothing: float = 0.0, none: bool = False
) -> Tensor:
    """(N, classes) logits and targets to (N,) losses.

    cross-entropy: targets are made to sum to 1, so a frame with two labels wants half of each. binary: each class on
    its own, the mean over classes. Label smoothing takes its share of the target and spreads it evenly (for binary:
    moves it towards a half). none: cross-entropy with an implicit class "none of these" whose logit is always 0; it
    wants what the targets leave of 1.
    """
    classes = logits.shape[-1]
    if loss == "binary":
        wanted = targets * (1 - label_smoothing) + label_smoothing / 2
        return F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").mean(dim=-1)
    if loss != "cross-entropy":
        raise ValueError(f"choose a loss before computing it, not {loss}")
    if none:
        logits = torch.cat([logits, torch.zeros_like(logits[:, :1])], dim=1)
        targets = torch.cat([targets, 1 - targets.sum(dim=1, keepdim=True).clamp(max=1)], dim=1)
        classes += 1
    share = targets / targets.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(targets.dtype).tiny)
    wanted = share * (1 - label_smoothing) + label_smoothing / classes
    return -(wanted * torch.log_softmax(logits, dim=-1)).sum(dim=-1)


def score_kind(loss: Loss) -> ScoreKind:
    """What logits mean after training with a loss."""
    return "sigmoid" if loss == "binary" else "softmax"


def weighted_sum(losses: Tensor, weight: Tensor) -> Tensor:
    """Σ weight · loss; losses of weight 0 do not count even where they are not finite."""
    return (torch.where(weight > 0, losses, torch.zeros_like(losses)) * weight).sum()
