"""Our own checkpoints as a source: nothing to rename, and the regular model is our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pipelines.checkpoints.checkpoint import Checkpoint, empty_model
from pipelines.checkpoints.imported import Imported, Outputs, Reference
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
    """A deep stack has no window to start over from: its regular model is the banded pass over the whole stream."""

    model: ContinualTransformer

    def changed(self, config: ModelConfig, weights: Mapping[str, Tensor]) -> Reference:
        return DeepReference(filled_model(config, weights))

    def __call__(self, windows: Tensor, start: int) -> Outputs:
        """windows: (1, T, input_width), a stream from its first token on."""
        logits, _ = self.model.steps(windows, self.model.initial_state(1, start))
        return Outputs(logits[:, -1], None)

    def stream(self, tokens: Tensor) -> Tensor:
        """Logits (T, classes) at every token of a stream (T, input_width)."""
        logits, _ = self.model.steps(tokens.unsqueeze(0), self.model.initial_state(1))
        return logits.squeeze(0)


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
