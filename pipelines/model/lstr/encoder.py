"""LSTR's encoder: learned queries compress the long memory, further modules what the first one makes of it.

The queries of the first layer of a module are constants, after their self-attention too. So is what gives their scores
when it is multiplied by a memory (`lstr_layer.py`): a sample of the long memory is scored once, when it arrives.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.model.attention import query_sums
from pipelines.model.attention.query_sums import Samples
from pipelines.model.lstr import memory as lstr_memory
from pipelines.model.lstr.config import LstrConfig
from pipelines.model.lstr.layer import MemoryLayer
from pipelines.model.lstr.memory import LongState, Place


class EncoderTables(NamedTuple):
    """Constants of the weights. With positions on the long memory, what they add; L is 0 without."""

    queries: tuple[Tensor, ...]  # (q, d) of each module, after their self-attention; (0, d) without queries
    matrices: tuple[Tensor, ...]  # (h · q, d) what gives their scores when it is multiplied by a memory
    score: Tensor  # (h, q, L) added to the scores of the first layer of the first module
    value: Tensor  # (h, L, w) added to its values
    key_value: Tensor  # (2 · layers, h, L, w) added to keys and values of its other layers


class EncoderStage(nn.Module):
    """Learned queries that read a memory through some layers; without queries, self-attention of the memory."""

    def __init__(self, config: LstrConfig, index: int) -> None:
        super().__init__()
        queries = config.encoder_queries[index]
        self.queries = nn.Parameter(torch.zeros(queries, config.width)) if queries else None
        if self.queries is not None and not self.queries.is_meta:
            nn.init.normal_(self.queries)
        self.layers = nn.ModuleList(MemoryLayer(config, cross=queries > 0) for _ in range(config.encoder_layers[index]))
        self.norm = nn.LayerNorm(config.width) if config.encoder_norms[index] else None
        self.stack = cast("tuple[MemoryLayer, ...]", tuple(self.layers))

    def forward(self, memory: Tensor, bias: Tensor | None = None) -> Tensor:
        """(N, n, d) to (N, q, d). bias: added to the scores of cross-attention."""
        rows = memory if self.queries is None else self.queries.expand(memory.shape[0], -1, -1)
        for layer in self.stack:
            rows = layer(rows, None if self.queries is None else memory, None, bias)
        return self.normed(rows)

    def known(self, memory: Tensor, queries: Tensor, matrix: Tensor) -> Tensor:
        """`forward` with the constants of the first layer: queries (q, d) and matrix (h · q, d)."""
        first = self.stack[0]
        cross = first.memory_attention
        scores = cross.split(F.linear(memory, matrix))  # (N, h, n, q)
        weights = torch.softmax(scores.transpose(2, 3), dim=-1)
        attended = cross.joined(torch.matmul(weights, cross.split(cross.value(memory))))
        rows = first.after_cross(queries.expand(memory.shape[0], -1, -1), attended)
        rows = first.feed_forward(rows)
        for layer in self.stack[1:]:
            rows = layer(rows, memory)
        return self.normed(rows)

    def normed(self, rows: Tensor) -> Tensor:
        return rows if self.norm is None else cast(Tensor, self.norm(rows))


class LstrEncoder(nn.Module):
    """The long memory in, a few rows that stand for it out."""

    def __init__(self, config: LstrConfig) -> None:
        super().__init__()
        self.config = config
        self.stages = nn.ModuleList(EncoderStage(config, index) for index in range(len(config.encoder_queries)))
        self._stages = cast("tuple[EncoderStage, ...]", tuple(self.stages))
        self._first = self._stages[0].stack

    def forward(self, samples: Tensor) -> Tensor:
        """The regular encoder on the samples of a long memory, oldest first: (B, n, d) to (B, m, d)."""
        bias = None
        if self.config.decay != 1.0:
            ages = torch.arange(samples.shape[1], device=samples.device).flip(0).to(samples.dtype)
            bias = query_sums.age_bias(ages, self.config.decay)
        memory = samples
        for index, stage in enumerate(self._stages):
            memory = stage(memory, bias if index == 0 else None)
        return memory

    def tables(self, positions: Tensor) -> EncoderTables:
        """The constants. positions: of the long memory, (L, d) or (0, d)."""
        queries, matrices = [], []
        for stage in self._stages:
            if stage.queries is None:
                queries.append(positions.new_zeros(0, positions.shape[1]))
                matrices.append(queries[-1])
                continue
            layer = stage.stack[0]
            rows = stage.queries.unsqueeze(0)
            queries.append(layer.after_self(rows, layer.self_attention(rows, rows))[0])
            matrices.append(layer.memory_attention.score_matrix(queries[-1]))
        attentions = [layer.memory_attention for layer in self._first]
        rows = positions.unsqueeze(0)
        parts = [part for attention in attentions for part in attention.key_value(rows, bias=False)]
        value = parts[1][0]
        return EncoderTables(
            queries=tuple(queries),
            matrices=tuple(matrices),
            score=attentions[0].split(F.linear(rows, matrices[0]))[0].transpose(1, 2),
            value=value,
            key_value=torch.cat(parts[2:]) if parts[2:] else value.new_zeros(0, *value.shape),
        )

    def brought(self, rows: Tensor, tables: EncoderTables) -> Tensor:
        """What frames bring to the long memory: (B, T, d) to scores, value and further keys and values (B, T, c)."""
        width = self.config.width
        parts = [F.linear(rows, tables.matrices[0]), self._first[0].memory_attention.value(rows)]
        for layer in self._first[1:]:
            projection = layer.memory_attention.in_projection
            parts.append(F.linear(rows, projection.weight[width:], projection.bias[width:]))
        return torch.cat(parts, dim=-1)

    def compress(self, long: LongState, at: Place, tables: EncoderTables) -> Tensor:
        """The rows (B, q, d) of the first module, before its norm, for the long memory of a step."""
        first = self._first[0]
        if long.sums is None:
            mixed = self._attended(long, at, tables)
        else:
            sums = lstr_memory.phase_sums(long, self.config, at)
            mixed = query_sums.attended(sums).to(long.value.dtype)
        rows = tables.queries[0].expand(mixed.shape[0], -1, -1)
        rows = first.feed_forward(first.after_cross(rows, first.memory_attention.joined(mixed)))
        return self._through_others(rows, long, at, tables) if len(self._first) > 1 else rows

    def encode(self, rows: Tensor, tables: EncoderTables) -> Tensor:
        """The encoded memory (N, m, d) out of the first module's rows (N, q, d)."""
        memory = self._stages[0].normed(rows)
        for index, stage in enumerate(self._stages[1:], start=1):
            if stage.queries is None:
                memory = stage(memory)
            else:
                memory = stage.known(memory, tables.queries[index], tables.matrices[index])
        return memory

    def _attended(self, long: LongState, at: Place, tables: EncoderTables) -> Tensor:
        """Attention (B, h, q, w) of the first layer: cached scores and values, and what positions add to them."""
        samples = lstr_memory.samples(long, self.config, at)
        position = self._positions(samples)
        scores = samples.score + tables.score[:, :, position].permute(2, 0, 1, 3)
        weights = torch.softmax(scores + self._bias(samples), dim=-1)
        return torch.matmul(weights, samples.value + tables.value[:, position].transpose(0, 1))

    def _through_others(self, rows: Tensor, long: LongState, at: Place, tables: EncoderTables) -> Tensor:
        """The layers of the first module after its first, whose queries depend on the input."""
        samples = lstr_memory.samples(long, self.config, at)
        streams = torch.arange(rows.shape[0], device=rows.device)
        cached = long.key_value[streams, at.start % self.config.long_rate]  # (B, 2 · layers, h, L, w)
        if self.config.long_positions:
            cached = cached + tables.key_value[:, :, self._positions(samples)].permute(2, 0, 1, 3, 4)
        bias = self._bias(samples)
        for layer, key, value in zip(self._first[1:], cached[:, ::2].unbind(1), cached[:, 1::2].unbind(1), strict=True):
            rows = layer.after_self(rows, layer.self_attention(rows, rows))
            cross = layer.memory_attention
            rows = layer.feed_forward(layer.after_cross(rows, cross.attend(cross.query(rows), key, value, bias)))
        return rows

    def _positions(self, samples: Samples) -> Tensor:
        """The position (B, L) of the sample in each slot: the newest has the last, however many there are."""
        return self.config.long_samples - 1 - samples.age

    def _bias(self, samples: Samples) -> Tensor:
        """What is added to the scores of samples: (B, 1, 1, L), -inf where there is none yet."""
        age = samples.age.to(samples.score.dtype)
        bias = torch.zeros_like(age) if self.config.decay == 1.0 else query_sums.age_bias(age, self.config.decay)
        return bias.masked_fill(~samples.present, -torch.inf)[:, None, None]
