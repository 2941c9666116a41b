"""OadTR's decoder: learned queries that read the encoder's rows and stand for the coming frames."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.model.attention.banded import attend
from pipelines.model.linear.projection import Projection
from pipelines.model.transformer.config import ModelConfig


class DecoderAttention(nn.Module):
    """Multi-head attention from queries to memory, with a projection of its own for each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_projection = Projection(width, width)
        self.key_projection = Projection(width, width)
        self.value_projection = Projection(width, width)
        self.out_projection = Projection(width, width)

    def forward(self, queries: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, m, d), (B, n, d) to (B, m, d). mask: true where memory may be seen, broadcast to (B, h, m, n)."""
        query = self._split(self.query_projection(queries)) / math.sqrt(queries.shape[-1] // self.heads)
        key, value = self._split(self.key_projection(memory)), self._split(self.value_projection(memory))
        result: Tensor = self.out_projection(attend(query, key, value, mask).transpose(1, 2).flatten(2))
        return result

    def _split(self, rows: Tensor) -> Tensor:
        batch, length, width = rows.shape
        return rows.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class DecoderBlock(nn.Module):
    """Self-attention, cross-attention and feed-forward, each followed by a residual connection and a norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.width
        self.self_attention = DecoderAttention(width, config.decoder_heads)
        self.cross_attention = DecoderAttention(width, config.decoder_heads)
        self.expand = Projection(width, config.decoder_feed_forward)
        self.contract = Projection(config.decoder_feed_forward, width)
        self.self_norm = nn.LayerNorm(width)
        self.cross_norm = nn.LayerNorm(width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.dropout = config.dropout

    def forward(self, queries: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        """(B, q, d), (B, m, d) to (B, q, d). mask: (B, 1, 1, m)."""
        # A query sees those of nearer frames and itself, not those of frames that come later.
        count = queries.shape[1]
        nearer = torch.ones(count, count, dtype=torch.bool, device=queries.device).tril()
        queries = self.self_norm(queries + self._drop(self.self_attention(queries, queries, nearer)))
        queries = self.cross_norm(queries + self._drop(self.cross_attention(queries, memory, mask)))
        hidden = self._drop(F.gelu(self.expand(queries)))
        result: Tensor = self.feed_forward_norm(queries + self._drop(self.contract(hidden)))
        return result

    def _drop(self, rows: Tensor) -> Tensor:
        return F.dropout(rows, self.dropout) if self.training and self.dropout else rows


class Decoder(nn.Module):
    """Rows of the window in, one vector for each of the coming frames out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.zeros(config.decoder_queries, config.width))
        if not self.queries.is_meta:  # random numbers for no memory make torch load its compiler
            nn.init.normal_(self.queries, std=0.02)
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.decoder_blocks))
        self.norm = nn.LayerNorm(config.width)
        self.classifier = Projection(config.width, config.classes)

    def forward(self, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """memory: (B, m, d) to (B, decoder_queries, d). mask: (B, 1, 1, m), true where a row is there."""
        queries = self.queries.expand(memory.shape[0], -1, -1)
        for block in self.blocks:
            queries = block(queries, memory, mask)
        result: Tensor = self.norm(queries)
        return result
