"""A model that was never shown foreign input learns afterwards to say "none of these", at no cost to its answers.

The evidence for any class is log Σ exp(logits). A number g(h) = w·h + c that is added to the logits of all classes,
where h is what the classifier reads, changes no probability of the softmax and shifts the evidence by g(h). So w and c
are fitted as a logistic regression of known against foreign rows, with the evidence as its offset, and added to every
row of the classifier's weights.

Where two clips meet, a model reads something that is like neither of them. So what is known is told by single clips and
by clips in a row, which weigh the same however many there are of either.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from pipelines.checkpoints.checkpoint import Checkpoint
from pipelines.model.continual_model import ContinualModel
from pipelines.model.linear.projection import Projection
from pipelines.model.per_frame import PerFrameModel
from pipelines.model.transformer.model import ContinualTransformer
from pipelines.training.samples.recordings import Recording

DECAY = 1e-4  # of w, squared
STEPS = 200  # of L-BFGS, at most
WARM_UP = 2  # rows at the beginning of a recording that have heard too little to count
MOST_ROWS = 20_000  # of either kind


def with_none_shift(
    checkpoint: Checkpoint,
    known: Sequence[Recording],
    foreign: Sequence[Recording],
    in_a_row: Sequence[Recording] = (),
) -> Checkpoint | None:
    """The same model with the evidence of foreign recordings lowered; None for kinds of model that cannot have it.

    in_a_row: some of the known clips, as a stream plays them.
    """
    model = checkpoint.model
    if not isinstance(model, ContinualTransformer | PerFrameModel):
        return None
    if isinstance(model, ContinualTransformer) and model.decoder is not None:
        return None
    mine = [rows for kind in (known, in_a_row) if len(rows := _hidden(model, kind))]
    theirs = _hidden(model, foreign)
    if not mine or not len(theirs):
        return None
    weight, bias = _fitted(mine, theirs, model.classifier)
    shifted = copy.deepcopy(model)
    with torch.no_grad():
        shifted.classifier.weight.add_(weight)
        shifted.classifier.bias.add_(bias)
    return replace(checkpoint, model=shifted)


def _hidden(model: ContinualTransformer | PerFrameModel, recordings: Sequence[Recording]) -> Tensor:
    """(rows, d) float64: what the classifier reads at the rows of recordings, thinned out where there are very many."""
    reader = copy.deepcopy(model)
    reader.reading = None  # which has its share of the evidence by itself
    width = model.classifier.in_features
    reader.classifier = Projection(width, width).to(model.classifier.weight.dtype)
    with torch.no_grad():
        reader.classifier.weight.copy_(torch.eye(width))
        reader.classifier.bias.zero_()
    rows = torch.cat([torch.zeros(0, width), *(_outputs(reader, recording)[WARM_UP:] for recording in recordings)])
    return rows[:: max(1, len(rows) // MOST_ROWS)].double()


def _outputs(model: ContinualModel, recording: Recording) -> Tensor:
    """(rows, outputs) of one recording."""
    tokens = torch.from_numpy(recording.rows[0 : len(recording)]).to(model.dtype)
    with torch.inference_mode():
        return model.steps(tokens[None], model.initial_state(1))[0][0]


def _fitted(known: Sequence[Tensor], foreign: Tensor, classifier: Projection) -> tuple[Tensor, Tensor]:
    """w (d,) and c of the logistic regression.

    known: (rows, d) of each kind, foreign: (rows, d). Known and foreign weigh the same, and so do the kinds of known.
    """
    rows = torch.cat([*known, foreign]).clone()
    logits = rows @ classifier.weight.detach().double().T + classifier.bias.detach().double()
    evidence = logits.logsumexp(dim=-1)
    wanted = torch.cat([torch.ones(len(rows) - len(foreign)), torch.zeros(len(foreign))]).double()
    shares = [(part, 0.5 / len(known)) for part in known] + [(foreign, 0.5)]
    share = torch.cat([torch.full((len(part),), whole / len(part), dtype=torch.float64) for part, whole in shares])
    weight = torch.zeros(rows.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        odds = rows @ weight + bias + evidence
        losses = nn.functional.binary_cross_entropy_with_logits(odds, wanted, reduction="none")
        total = (share * losses).sum() + DECAY * weight @ weight
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()
