"""Our own checkpoints as a source: nothing to rename, and the regular model is our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from pipelines.checkpoints.checkpoint import Checkpoint, empty_model
from pipelines.checkpoints.imported import Imported, Outputs, Reference
from pipelines.model.block import Block
from pipelines.model.config import ModelConfig
from pipelines.model.transformer import ContinualTransformer


@dataclass(frozen=True)
class OwnReference:
    """Our model as a regular one: `model(window)`."""

    model: ContinualTransformer

    def changed(self, config: ModelConfig, weights: Mapping[str, Tensor]) -> Reference:
        return OwnReference(filled_model(config, weights))

    def __call__(self, windows: Tensor, start: int) -> Outputs:
        starts = start + torch.arange(windows.shape[0])
        if self.model.decoder is None:
            return Outputs(self.model(windows, starts), None)
        return Outputs(*self.model.predict(windows, starts))


@dataclass(frozen=True)
class DeepReference:
    """A deep stack has no window to start over from: every block reads a window of what the one below gave.

    Each block runs as a regular one on whole windows, and its newest row goes on; no ring, no folding.
    """

    model: ContinualTransformer

    def changed(self, config: ModelConfig, weights: Mapping[str, Tensor]) -> Reference:
        return DeepReference(filled_model(config, weights))

    def __call__(self, windows: Tensor, start: int) -> Outputs:
        """windows: (1, T, input_width), a stream from its first token on."""
        return Outputs(self.stream(windows[0], start)[-1:], None)

    def stream(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Logits (T, classes) at every token of a stream (T, input_width). start: index of its first token."""
        model, config = self.model, self.model.config
        encoder = model.encoder
        rows = model.input_projection(tokens)
        if encoder.positions is not None and config.positional == "recycling":
            rows = rows + encoder.positions.at(start + torch.arange(len(tokens)))
        for number, block in enumerate(cast("list[Block]", list(encoder.blocks)), start=1):
            outputs = []
            for end in range(1, len(tokens) + 1):
                window = rows[max(end - config.window, 0) : end]
                if encoder.positions is not None and config.positional == "static" and number == 1:
                    window = window + encoder.positions.table[: len(window)]
                if number == config.class_token_block and encoder.class_token is not None:
                    window = torch.cat([encoder.class_token.unsqueeze(0), window])
                    outputs.append(block(window.unsqueeze(0))[0, 0])
                else:
                    outputs.append(block(window.unsqueeze(0))[0, max(len(window) - 1 - block.lag, 0)])
            rows = torch.stack(outputs)
        rows = rows if model.final_norm is None else model.final_norm(rows)
        logits: Tensor = model.classifier(rows)
        return logits


def filled_model(config: ModelConfig, weights: Mapping[str, Tensor]) -> ContinualTransformer:
    """A model with these weights (our names), in evaluation mode."""
    model = empty_model(config, weights["classifier.weight"].dtype)
    model.load_state_dict({name: value.detach().clone() for name, value in weights.items()}, assign=True)
    return model.eval()


def read(checkpoint: Checkpoint) -> Imported:
    """A checkpoint of ours in the shape of an import."""
    weights = checkpoint.model.state_dict()
    return Imported(
        kind=f"cotrans, {checkpoint.config.blocks} block{'s' * (checkpoint.config.blocks > 1)}",
        config=checkpoint.config,
        weights=weights,
        mapped={name: name for name in weights},
        dropped={},
        notes=(),
        class_names=checkpoint.class_names,
        reference=(
            DeepReference(checkpoint.model) if checkpoint.config.stacking == "deep" else OwnReference(checkpoint.model)
        ),
    )
