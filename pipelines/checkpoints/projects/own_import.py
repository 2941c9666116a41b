"""Our own checkpoints as a source: nothing to rename, and the regular model is our own."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from pipelines.checkpoints.checkpoint import Checkpoint, empty_model
from pipelines.checkpoints.foreign_files.imported import Imported, Outputs, Reference
from pipelines.model.base_config import BaseConfig
from pipelines.model.continual_model import ContinualModel
from pipelines.model.positions.places import window_places
from pipelines.model.transformer.block import Block
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.model import ContinualTransformer


@dataclass(frozen=True)
class OwnReference:
    """Our model as a regular one: `model(window)`."""

    model: ContinualModel

    def changed(self, config: ModelConfig, weights: Mapping[str, Tensor]) -> Reference:
        return OwnReference(filled_model(config, weights))

    def __call__(self, windows: Tensor, start: int) -> Outputs:
        windows = windows.to(self.model.classifier.weight.dtype)
        starts = start + torch.arange(windows.shape[0])
        if self.model.decoder is None:
            return Outputs(self.model(windows, starts), None)
        return Outputs(*self.model.predict(windows, starts))


@dataclass(frozen=True)
class WholeReference:
    """A deep stack or a recurrent model has no window to start over from: one pass over the whole stream instead."""

    model: ContinualModel

    def changed(self, config: ModelConfig, weights: Mapping[str, Tensor]) -> Reference:
        return WholeReference(filled_model(config, weights))

    def __call__(self, windows: Tensor, start: int) -> Outputs:
        """windows: (1, T, input_width), a stream from its first token on."""
        return Outputs(self.stream(windows[0], start)[-1:], None)

    def along(self, stream: Tensor, steps: Sequence[int]) -> Iterator[Outputs]:
        logits = self.stream(stream)
        return (Outputs(logits[step : step + 1], None) for step in steps)

    def stream(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Logits (T, classes) at every token of a stream (T, input_width). start: index of its first token."""
        logits, _ = self.model.steps(tokens.unsqueeze(0), self.model.initial_state(1, start))
        return logits.squeeze(0)


@dataclass(frozen=True)
class StackReference(WholeReference):
    """A deep stack made of regular blocks: each runs on windows of what the one below gave, and its newest row goes on.

    No ring, no folding, no banded pass. For models without an embedding.
    """

    model: ContinualTransformer

    def stream(self, tokens: Tensor, start: int = 0) -> Tensor:
        config, encoder = self.model.config, self.model.encoder
        rows = self.model.project_input(tokens)
        if encoder.positions is not None and config.positional == "recycling":
            rows = rows + encoder.positions.at(start + torch.arange(len(tokens)))
        for number, block in enumerate(cast("list[Block]", list(encoder.blocks)), start=1):
            rows = torch.stack([self._newest(block, number, rows[:end]) for end in range(1, len(tokens) + 1)])
        rows = rows if self.model.final_norm is None else self.model.final_norm(rows)
        logits: Tensor = self.model.classifier(rows)
        return logits

    def _newest(self, block: Block, number: int, rows: Tensor) -> Tensor:
        """The newest row (d,) that a block makes of the last n rows that it was given, (T, d)."""
        config, encoder = self.model.config, self.model.encoder
        window = rows[-config.window :]
        length = len(window)
        if encoder.positions is not None and config.positional == "static" and number == 1:
            window = window + encoder.positions.table[:length]
        lead = int(number == config.class_token_block)
        if encoder.class_token is not None and lead:
            window = torch.cat([encoder.class_token.unsqueeze(0), window])
        window = window.unsqueeze(0)
        places = window_places(config, block.age_bias, length, lead, window)
        outputs: Tensor = block(window, places=places)
        return outputs[0, 0 if lead else max(length - 1 - block.lag, 0)]


def filled_model(config: BaseConfig, weights: Mapping[str, Tensor]) -> ContinualModel:
    """A model with these weights (our names), in evaluation mode."""
    model = empty_model(config, weights["classifier.weight"].dtype)
    model.load_state_dict({name: value.detach().clone() for name, value in weights.items()}, assign=True)
    return model.eval()


def read(checkpoint: Checkpoint) -> Imported:
    """A checkpoint of ours in the shape of an import."""
    weights, model = checkpoint.model.state_dict(), checkpoint.model
    if checkpoint.config.proven_in_float64:
        model = copy.deepcopy(model).double()
    return Imported(
        kind=f"cotrans, {checkpoint.config.summary()}",
        config=checkpoint.config,
        weights=weights,
        mapped={name: name for name in weights},
        dropped={},
        notes=(),
        class_names=checkpoint.class_names,
        reference=OwnReference(model) if checkpoint.config.windowed else WholeReference(model),
    )
