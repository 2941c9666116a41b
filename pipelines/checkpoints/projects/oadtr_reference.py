"""OadTR's own forward pass on OadTR's own weights: what a converted model is compared with.

Written from the definition of the model, for whole windows, in plain functions: no code is shared with our model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from pipelines.checkpoints.foreign_files.imported import Outputs, Reference
from pipelines.model.transformer.config import ModelConfig


@dataclass(frozen=True)
class OadtrReference:
    """The regular model. weights: by OadTR's names."""

    weights: Mapping[str, Tensor]
    window: int
    blocks: int
    heads: int
    class_token: str | None  # its key
    class_token_block: int  # 1 … blocks; 0 without class token
    decoder_blocks: int
    decoder_heads: int
    recycled: Tensor | None = None  # (T, d): takes the place of the static positions

    def changed(self, config: ModelConfig, weights: Mapping[str, Tensor]) -> Reference:
        """The same model without its decoder, or with recycling positions, if `config` has it so."""
        recycled = None
        if config.positional == "recycling":
            recycled = _recycled_table(config, weights).to(self.weights["linear_encoding.weight"].dtype)
        return replace(self, decoder_blocks=config.decoder_blocks, recycled=recycled)

    def __call__(self, windows: Tensor, start: int) -> Outputs:
        rows = self._linear(windows, "linear_encoding")
        batch, length, width = rows.shape
        token = None if self.class_token is None else self.weights[self.class_token].reshape(1, 1, width)
        table = self.weights["position_encoding.pe.weight"]
        if token is not None and table.shape[0] > self.window:
            token = token + table[-1]
        if self.recycled is None:
            rows = rows + table[:length]
        else:
            first = start + torch.arange(batch).unsqueeze(1)
            rows = rows + self.recycled[(first + torch.arange(length)) % self.recycled.shape[0]]
        for block in range(self.blocks):
            if token is not None and self.class_token_block == block + 1:
                rows = torch.cat([rows, token.expand(batch, 1, width)], dim=1)
            rows = rows + self._attention(self._norm(rows, f"encoder.net.{2 * block}.fn.norm"), f"{2 * block}")
            hidden = self._norm(rows, f"encoder.net.{2 * block + 1}.fn.norm")
            hidden = F.gelu(self._linear(hidden, f"encoder.net.{2 * block + 1}.fn.fn.net.0"))
            rows = rows + self._linear(hidden, f"encoder.net.{2 * block + 1}.fn.fn.net.3")
        rows = self._norm(rows, "pre_head_ln")
        newest = rows[:, -1]
        head, bias = self.weights["mlp_head.weight"], self.weights["mlp_head.bias"]
        if not self.decoder_blocks:
            # Of a head that also reads a decoder, the part that reads the encoder.
            return Outputs(F.linear(newest, head[:, :width], bias), None)
        future = self._decode(rows)
        logits = F.linear(torch.cat([newest, future.mean(dim=1)], dim=1), head, bias)
        return Outputs(logits, self._linear(future, "classifier"))

    def _attention(self, rows: Tensor, place: str) -> Tensor:
        batch, length, width = rows.shape
        packed = self._linear(rows, f"encoder.net.{place}.fn.fn.qkv")
        query, key, value = packed.reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5
        mixed = (scores.softmax(dim=-1) @ value).transpose(1, 2).reshape(batch, length, width)
        return self._linear(mixed, f"encoder.net.{place}.fn.fn.proj")

    def _decode(self, memory: Tensor) -> Tensor:
        """Queries for the coming frames: (B, m, d) to (B, q, d)."""
        queries = self.weights["decoder_cls_token"].expand(memory.shape[0], -1, -1)
        for block in range(self.decoder_blocks):
            name = f"decoder.layers.{block}"
            queries = self._norm(
                queries + self._cross(queries, queries, f"{name}.self_attention", causal=True), f"{name}.norm1"
            )
            queries = self._norm(
                queries + self._cross(queries, memory, f"{name}.cross_attention", causal=False), f"{name}.norm2"
            )
            hidden = F.gelu(self._linear(queries, f"{name}.conv1"))
            queries = self._norm(queries + self._linear(hidden, f"{name}.conv2"), f"{name}.norm3")
        return self._norm(queries, "decoder.norm")

    def _cross(self, queries: Tensor, memory: Tensor, name: str, causal: bool) -> Tensor:
        query, key, value = (
            self._heads(self._linear(rows, f"{name}.{part}_projection"))
            for rows, part in ((queries, "query"), (memory, "key"), (memory, "value"))
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if causal:
            later = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        mixed = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)
        return self._linear(mixed, f"{name}.out_projection")

    def _heads(self, rows: Tensor) -> Tensor:
        batch, length, width = rows.shape
        return rows.reshape(batch, length, self.decoder_heads, width // self.decoder_heads).transpose(1, 2)

    def _linear(self, rows: Tensor, name: str) -> Tensor:
        weight = self.weights[f"{name}.weight"]
        return F.linear(rows, weight.reshape(weight.shape[0], -1), self.weights.get(f"{name}.bias"))

    def _norm(self, rows: Tensor, name: str) -> Tensor:
        return F.layer_norm(rows, rows.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])


def _recycled_table(config: ModelConfig, weights: Mapping[str, Tensor]) -> Tensor:
    if config.encoding == "learned":
        return weights["encoder.positions.table"]
    from pipelines.model.positions.encodings import cyclic_table

    return cyclic_table(config.position_count, config.width)
