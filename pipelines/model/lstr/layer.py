"""The layers of LSTR: attention of rows to a memory, and attention whose queries are few or known beforehand.

A projection of the memory can be moved to the other side of a product: q · (W m) = (Wᵀ q) · m, and Σ a_j (W m_j) =
W (Σ a_j m_j). With one query, that projects one row instead of all rows of the memory. With learned queries, Wᵀ q is
a constant of the model. The key's bias adds the same to all scores of a query, which a softmax does not see.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.model.linear.projection import Projection
from pipelines.model.lstr.config import LstrConfig


class MemoryAttention(nn.Module):
    """Multi-head attention from rows to a memory."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        self.scale = 1 / math.sqrt(width // heads)
        self.in_projection = nn.Linear(width, 3 * width)  # query, key, value
        self.out_projection = Projection(width, width)

    def forward(self, rows: Tensor, memory: Tensor, bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """(N, m, d), (N, n, d) to (N, m, d). bias: added to the scores, broadcast to (N, h, m, n)."""
        key, value = self.key_value(memory)
        return self.attend(self.query(rows), key, value, bias, dropout)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None, dropout: float = 0.0
    ) -> Tensor:
        """Heads (N, h, m, w), (N, h, n, w), (N, h, n, w) to rows (N, m, d); queries come scaled."""
        scores = torch.matmul(query, key.transpose(-2, -1))
        weights = torch.softmax(scores if bias is None else scores + bias, dim=-1)
        if dropout:
            weights = F.dropout(weights, dropout)
        return self.joined(torch.matmul(weights, value))

    def attend_one(self, row: Tensor, memory: Tensor, seen: Tensor | None) -> Tensor:
        """One row (N, d) to a memory (N, n, d), projecting neither keys nor values: (N, d).

        seen: (N, 1, n), true where memory is there.
        """
        query_weight, key_weight, value_weight = self._weights()
        query_bias, _, value_bias = self.in_projection.bias.chunk(3)
        query = F.linear(row, query_weight, query_bias).view(row.shape[0], self.heads, -1) * self.scale
        query = torch.bmm(query.transpose(0, 1), key_weight).transpose(0, 1)  # (N, h, d)
        scores = torch.bmm(query, memory.transpose(1, 2))  # (N, h, n)
        if seen is not None:
            scores = scores.masked_fill(~seen, -torch.inf)
        mixed = torch.bmm(torch.softmax(scores, dim=-1), memory)  # (N, h, d)
        value = torch.bmm(mixed.transpose(0, 1), value_weight.transpose(1, 2)).transpose(0, 1)  # (N, h, w)
        projected: Tensor = self.out_projection(value.flatten(1) + value_bias)
        return projected

    def query(self, rows: Tensor) -> Tensor:
        """Scaled queries of rows (N, m, d): (N, h, m, w)."""
        weight, bias = self.in_projection.weight[: self.width], self.in_projection.bias[: self.width]
        return self.split(F.linear(rows, weight, bias)) * self.scale

    def key_value(self, memory: Tensor, bias: bool = True) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory (N, n, d): two (N, h, n, w)."""
        added = self.in_projection.bias[self.width :] if bias else None
        key, value = F.linear(memory, self.in_projection.weight[self.width :], added).chunk(2, dim=-1)
        return self.split(key), self.split(value)

    def value(self, memory: Tensor) -> Tensor:
        """Values of a memory (…, n, d), side by side: (…, n, d)."""
        return F.linear(memory, self.in_projection.weight[2 * self.width :], self.in_projection.bias[2 * self.width :])

    def score_matrix(self, rows: Tensor) -> Tensor:
        """What gives the scores of known rows (m, d) when it is multiplied by a memory: (h · m, d)."""
        _, key_weight, _ = self._weights()
        return torch.bmm(self.query(rows.unsqueeze(0))[0], key_weight).flatten(0, 1)

    def split(self, rows: Tensor) -> Tensor:
        """(N, m, d) to heads (N, h, m, w)."""
        return rows.view(*rows.shape[:-1], self.heads, rows.shape[-1] // self.heads).transpose(1, 2)

    def joined(self, heads: Tensor) -> Tensor:
        """Heads (N, h, m, w) to projected rows (N, m, d)."""
        projected: Tensor = self.out_projection(heads.transpose(1, 2).flatten(2))
        return projected

    def _weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """The parts of the in-projection by head: (d, d) for queries, (h, w, d) for keys and for values."""
        query, key, value = self.in_projection.weight.chunk(3)
        return query, key.view(self.heads, -1, self.width), value.view(self.heads, -1, self.width)


class MemoryLayer(nn.Module):
    """Self-attention, cross-attention (where there is a memory) and feed-forward; residual and norm after each."""

    def __init__(self, config: LstrConfig, cross: bool = True) -> None:
        super().__init__()
        width = config.width
        self.self_attention = MemoryAttention(width, config.heads)
        self.self_norm = nn.LayerNorm(width)
        self.cross_attention = MemoryAttention(width, config.heads) if cross else None
        self.cross_norm = nn.LayerNorm(width) if cross else None
        self.expand = Projection(width, config.feed_forward)
        self.contract = Projection(config.feed_forward, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.activation = F.relu if config.activation == "relu" else F.gelu
        self.dropout = config.dropout

    def forward(
        self, rows: Tensor, memory: Tensor | None, own_bias: Tensor | None = None, memory_bias: Tensor | None = None
    ) -> Tensor:
        """(N, m, d), (N, n, d) to (N, m, d). The biases are added to the scores of self- and cross-attention."""
        rows = self.after_self(rows, self.self_attention(rows, rows, own_bias, self._rate))
        if memory is not None:
            rows = self.after_cross(rows, self.cross(memory, rows, memory_bias))
        return self.feed_forward(rows)

    def cross(self, memory: Tensor, rows: Tensor, bias: Tensor | None) -> Tensor:
        attended: Tensor = self.memory_attention(rows, memory, bias, self._rate)
        return attended

    @property
    def memory_attention(self) -> MemoryAttention:
        """The cross-attention of a layer that has one."""
        if self.cross_attention is None:
            raise TypeError("this layer has no cross-attention")
        return self.cross_attention

    def after_self(self, rows: Tensor, attended: Tensor) -> Tensor:
        result: Tensor = self.self_norm(rows + self._drop(attended))
        return result

    def after_cross(self, rows: Tensor, attended: Tensor) -> Tensor:
        if self.cross_norm is None:
            raise TypeError("this layer has no cross-attention")
        result: Tensor = self.cross_norm(rows + self._drop(attended))
        return result

    def feed_forward(self, rows: Tensor) -> Tensor:
        hidden = self._drop(self.activation(self.expand(rows)))
        result: Tensor = self.feed_forward_norm(rows + self._drop(self.contract(hidden)))
        return result

    @property
    def _rate(self) -> float:
        return self.dropout if self.training else 0.0

    def _drop(self, rows: Tensor) -> Tensor:
        return F.dropout(rows, self._rate) if self._rate else rows
