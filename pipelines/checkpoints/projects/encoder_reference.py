"""The regular model around `torch.nn.TransformerEncoder`: what a converted encoder is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.checkpoints.foreign_files.imported import Outputs, Reference
from pipelines.errors import UsageError
from pipelines.model.transformer.config import ModelConfig

Layer = tuple[Tensor, Tensor | None]  # weight and bias


@dataclass(frozen=True)
class EncoderReference:
    """PyTorch's own encoder on PyTorch's own names."""

    encoder: nn.TransformerEncoder
    input_layer: Layer | None
    table: Tensor | None  # (T, d) positions
    norm: Layer | None
    classifier: Layer | None
    static: bool = False  # positions are places in the window; otherwise they recycle

    def changed(self, config: ModelConfig, weights: Mapping[str, Tensor]) -> Reference:
        raise UsageError("this model has neither static positions to recycle nor a decoder to drop")

    def __call__(self, windows: Tensor, start: int) -> Outputs:
        rows = windows if self.input_layer is None else F.linear(windows, *self.input_layer)
        if self.static and self.table is not None:
            rows = rows + self.table[: rows.shape[1]]
        elif self.table is not None:
            first = start + torch.arange(rows.shape[0]).unsqueeze(1)
            rows = rows + self.table[(first + torch.arange(rows.shape[1])) % self.table.shape[0]]
        newest = self.encoder(rows)[:, -1]
        if self.norm is not None:
            newest = F.layer_norm(newest, newest.shape[-1:], *self.norm)
        return Outputs(newest if self.classifier is None else F.linear(newest, *self.classifier), None)


def torch_encoder(weights: Mapping[str, Tensor], config: ModelConfig) -> nn.TransformerEncoder:
    """`torch.nn.TransformerEncoder` with these weights, by its own names; biases that are not there are zero."""
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(
            config.width,
            config.heads,
            config.feed_forward,
            activation=config.activation,
            batch_first=True,
            norm_first=config.norm == "pre",
        )
        norm = nn.LayerNorm(config.width) if "norm.weight" in weights else None
        encoder = nn.TransformerEncoder(layer, config.blocks, norm, enable_nested_tensor=False)
    like = weights["layers.0.linear1.weight"]
    zeros = {name: like.new_zeros(value.shape) for name, value in encoder.state_dict().items() if name.endswith("bias")}
    encoder.load_state_dict({**zeros, **weights}, assign=True)
    return encoder.eval()
