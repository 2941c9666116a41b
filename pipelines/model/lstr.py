"""LSTR and TeSTra: a long memory compressed by learned queries, and a work memory that reads it.

`forward` is the regular model: everything from the frames of a window. A step gives the same numbers and computes

- the feature heads, and the scores and values in the long memory, of the newest frame only;
- the sums over the long memory by two terms (`query_sums.py`), or, with positions, from cached scores and values to
  which the positions' own are added;
- what learned queries make of themselves never: it is a constant of the model;
- of the decoder, projections of the work memory only for the newest frame (the positions' own are added), and of the
  last layer only the newest row, without projecting what it looks at (`lstr_layer.py`).

What remains is computed anew at every step, since every row of it changes.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.errors import InputError
from pipelines.model import lstr_memory, query_sums
from pipelines.model.lstr_config import LstrConfig
from pipelines.model.lstr_layer import MemoryAttention, MemoryLayer
from pipelines.model.lstr_memory import LongState, Place, WorkState
from pipelines.model.state import StreamState

# Frames whose encoder and decoder run together in `steps`.
CHUNK = 16


class LstrTables(NamedTuple):
    """Constants of the weights."""

    queries: tuple[Tensor, ...]  # (q, d) for each encoder module: its queries after their self-attention; (0, d) without
    matrices: tuple[Tensor, ...]  # (h · q, d) what gives their scores when it is multiplied by a memory
    long_score: Tensor  # (h, q, L) what positions add to the scores of the first layer; (h, q, 0) without positions
    long_value: Tensor  # (h, L, w) what they add to its values
    long_key_value: Tensor  # (2 · layers, h, L, w) what they add to keys and values of the other layers
    work_row: Tensor  # (W, d) positions of the work memory; zeros without
    work_projected: Tensor  # (W, c) what they and the biases add to the decoder's projections


class EncoderModule(nn.Module):
    """Learned queries that read a memory through some layers; without queries, self-attention of the memory."""

    def __init__(self, config: LstrConfig, index: int) -> None:
        super().__init__()
        queries = config.encoder_queries[index]
        self.queries = nn.Parameter(torch.zeros(queries, config.width)) if queries else None
        if self.queries is not None and not self.queries.is_meta:
            nn.init.normal_(self.queries)
        self.layers = nn.ModuleList(
            MemoryLayer(config, cross=queries > 0) for _ in range(config.encoder_layers[index])
        )
        self.norm = nn.LayerNorm(config.width) if config.encoder_norms[index] else None

    def forward(self, memory: Tensor, bias: Tensor | None = None) -> Tensor:
        """(B, n, d) to (B, q, d). bias: added to the scores of cross-attention."""
        rows = memory if self.queries is None else self.queries.expand(memory.shape[0], -1, -1)
        for layer in self.stack:
            rows = layer(rows, None if self.queries is None else memory, None, bias)
        return self.normed(rows)

    @property
    def stack(self) -> tuple[MemoryLayer, ...]:
        return cast("tuple[MemoryLayer, ...]", tuple(self.layers))

    def normed(self, rows: Tensor) -> Tensor:
        return rows if self.norm is None else cast(Tensor, self.norm(rows))


class LstrModel(nn.Module):
    """Class scores for a stream of frames."""

    def __init__(self, config: LstrConfig) -> None:
        super().__init__()
        self.config = config
        self.long_head = nn.Linear(config.input_width, config.width) if config.feature_head else None
        self.work_head = nn.Linear(config.input_width, config.width) if config.feature_head else None
        self.positions: Tensor | None
        count = config.position_count
        self.register_buffer("positions", sinusoids(count, config.width) if count else None)
        self.encoder = nn.ModuleList(EncoderModule(config, index) for index in range(len(config.encoder_queries)))
        self.decoder_layers = nn.ModuleList(MemoryLayer(config) for _ in range(config.decoder_layers))
        self.final_norm = nn.LayerNorm(config.width) if config.decoder_norm else None
        self.classifier = nn.Linear(config.width, config.classes)
        self._modules_in_order = cast("tuple[EncoderModule, ...]", tuple(self.encoder))
        self._layers = cast("tuple[MemoryLayer, ...]", tuple(self.decoder_layers))

    # ---- the regular model ---------------------------------------------------------------------------------

    def forward(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        """The regular model on a window: (B, T <= window, input_width) to the newest frame's logits (B, classes).

        A window that is not full is the beginning of a stream.
        """
        config = self.config
        if not 1 <= tokens.shape[1] <= config.window:
            raise InputError(f"a window has 1 to {config.window} frames, not {tokens.shape[1]}")
        at = lstr_memory.place(config, torch.tensor([tokens.shape[1] - 1]))
        begin, newest = int(at.start), int(at.row)
        sampled = self._sampled(begin, min(int(at.count), config.long_samples))
        long = self._head(self.long_head, tokens[:, sampled])
        long, bias = self._with_long_positions(long), None
        if config.decay != 1.0:
            ages = torch.arange(len(sampled), device=tokens.device).flip(0).to(tokens.dtype)
            bias = query_sums.age_bias(ages, config.decay)
        memory = long
        for index, module in enumerate(self._modules_in_order):
            memory = module(memory, bias if index == 0 else None)
        rows = self._head(self.work_head, tokens[:, begin :: config.work_rate])
        rows = rows + self._work_positions()[: newest + 1]
        later = _later(newest + 1, rows)
        seen = None
        if config.include_work:
            seen = F.pad(later, (memory.shape[1], 0))
            memory = torch.cat([memory, rows], dim=1)
        for layer in self._layers:
            rows = layer(rows, memory, later, seen)
        return self._classified(rows[:, -1])

    def _sampled(self, begin: int, count: int) -> list[int]:
        """The frames of the long memory before frame `begin`, oldest first: frame 0 stands for what came before it."""
        rate = self.config.long_rate
        return [max(begin - age * rate, 0) for age in range(count, 0, -1)]

    def _with_long_positions(self, long: Tensor) -> Tensor:
        """The newest sample has the last position, however many there are."""
        return long + self._long_positions()[-long.shape[1] :] if self.config.long_positions else long

    def _long_positions(self) -> Tensor:
        """(L, d), or (0, d) where the long memory has no positions."""
        config = self.config
        if self.positions is None or not config.long_positions:
            return self.classifier.weight.new_zeros(0, config.width)
        return self.positions[: config.long_samples]

    def _work_positions(self) -> Tensor:
        """(W, d), zeros where the work memory has no positions."""
        config = self.config
        if self.positions is None or not config.work_positions:
            return self.classifier.weight.new_zeros(config.work_samples, config.width)
        return self.positions[-config.work_samples :]

    # ---- continual inference -------------------------------------------------------------------------------

    def initial_state(self, batch_size: int = 1, start: int | Tensor = 0) -> StreamState:
        """The state of `batch_size` streams before their first frame."""
        config = self.config
        like = self.classifier.weight
        heads, width, samples = config.heads, config.width // config.heads, config.long_samples
        queries, others = config.encoder_queries[0], 2 * (config.encoder_layers[0] - 1)
        rings = (batch_size, config.long_rate)
        long = LongState(
            pending=like.new_zeros(
                batch_size, config.span + config.long_rate, heads * queries + (1 + others) * config.width
            ),
            score=like.new_zeros(*rings, heads, queries, samples),
            value=like.new_zeros(*rings, heads, samples, width),
            key_value=like.new_zeros(*rings, others, heads, samples, width),
            sums=None
            if config.long_positions
            else query_sums.empty_sums(*rings, config.decay != 1.0, heads, queries, width, like),
        )
        tables = self._tables()
        encoded = config.work_rate if config.work_rate > config.long_rate else 0
        work = WorkState(
            row=like.new_zeros(batch_size, config.span, config.width),
            projected=like.new_zeros(batch_size, config.span, tables.work_projected.shape[1]),
            encoded=like.new_zeros(batch_size, encoded, self._encoded_rows, config.width),
        )
        position = torch.zeros(batch_size, dtype=torch.long, device=like.device)
        offset = torch.as_tensor(start, dtype=torch.long, device=like.device).expand(batch_size).clone()
        return StreamState(position, offset, (long, work), tables)

    def step(self, token: Tensor, state: StreamState, active: Tensor | None = None) -> tuple[Tensor, StreamState]:
        return self._step_(token, state.clone(), active)

    def _step_(self, token: Tensor, state: StreamState, active: Tensor | None) -> tuple[Tensor, StreamState]:
        logits = self._frames_(token.unsqueeze(1), state, active).squeeze(1)
        return logits, state

    def steps(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        """T frames at once: feature heads and projections in one product, encoder and decoder for 16 frames at a time."""
        state = state.clone()
        config = self.config
        # With more layers on the long memory, each frame has keys and values of its own.
        alone = config.encoder_layers[0] > 1 or config.work_rate > config.long_rate
        parts = [self._frames_(part, state, None) for part in tokens.split(1 if alone else CHUNK, dim=1)]
        return torch.cat(parts, dim=1), state

    def _frames_(self, tokens: Tensor, state: StreamState, active: Tensor | None) -> Tensor:
        """Logits (B, T, classes) of the next frames (B, T, input_width); `state` is written in place."""
        config = self.config
        long, work = cast("tuple[LongState, WorkState]", state.blocks)
        tables = cast(LstrTables, state.tables)
        brought = self._brought(self._head(self.long_head, tokens), tables)
        rows = self._head(self.work_head, tokens)
        projected = F.linear(rows, self._work_weight())
        compressed, windows, projections, newest = [], [], [], []
        for index in range(tokens.shape[1]):
            at = lstr_memory.place(config, state.position)
            lstr_memory.enter_(long, config, brought[:, index], at, active)
            lstr_memory.remember_(work, rows[:, index], projected[:, index], at, active)
            compressed.append(self._compressed(long, at, tables))
            window, projection = lstr_memory.work_rows(work, config, at)
            windows.append(window)
            projections.append(projection)
            newest.append(at.row)
            state.position.add_(1 if active is None else active)
        memory = self._encode(torch.cat(compressed), tables)
        if work.encoded.shape[1]:
            memory = lstr_memory.recalled_(work, config, memory, at, active)
        window = torch.cat(windows) + tables.work_row
        projection = torch.cat(projections) + tables.work_projected
        logits = self._decode(memory, window, projection, torch.cat(newest))
        return logits.unflatten(0, (tokens.shape[1], tokens.shape[0])).transpose(0, 1)

    # ---- parts ---------------------------------------------------------------------------------------------

    @property
    def _encoded_rows(self) -> int:
        """Rows of the encoded memory: the queries of the last module that has any."""
        return [count for count in self.config.encoder_queries if count][-1]

    def _head(self, head: nn.Linear | None, frames: Tensor) -> Tensor:
        return frames if head is None else F.relu(F.linear(frames, head.weight, head.bias))

    def _brought(self, rows: Tensor, tables: LstrTables) -> Tensor:
        """What a frame brings to the long memory: (B, T, d) to (B, T, c)."""
        layers = self._modules_in_order[0].stack
        parts = [F.linear(rows, tables.matrices[0]), layers[0].memory_attention.value(rows)]
        for layer in layers[1:]:
            projection = layer.memory_attention.in_projection
            parts.append(F.linear(rows, projection.weight[self.config.width :], projection.bias[self.config.width :]))
        return torch.cat(parts, dim=-1)

    def _compressed(self, long: LongState, at: Place, tables: LstrTables) -> Tensor:
        """The rows (B, q, d) of the first module before its norm."""
        layers = self._modules_in_order[0].stack
        first = layers[0].memory_attention
        if long.sums is not None:
            mixed = query_sums.attended(lstr_memory.phase_sums(long, self.config, at)).to(first.out_projection.weight.dtype)
        else:
            mixed = self._attended(long, at, tables)
        rows = tables.queries[0].expand(mixed.shape[0], -1, -1)
        rows = layers[0].feed_forward(layers[0].after_cross(rows, first.joined(mixed)))
        return self._through_others(rows, long, at, tables) if len(layers) > 1 else rows

    def _attended(self, long: LongState, at: Place, tables: LstrTables) -> Tensor:
        """Attention (B, h, q, w) of the first layer, from cached scores and values and those of the positions."""
        config = self.config
        samples = lstr_memory.samples(long, config, at)
        position = config.long_samples - 1 - samples.age  # (B, L)
        scores = samples.score + tables.long_score[:, :, position].permute(2, 0, 1, 3)
        weights = torch.softmax(scores + self._long_bias(samples)[:, None, None], dim=-1)
        return torch.matmul(weights, samples.value + tables.long_value[:, position].transpose(0, 1))

    def _through_others(self, rows: Tensor, long: LongState, at: Place, tables: LstrTables) -> Tensor:
        """The layers of the first module after its first, whose queries depend on the input."""
        config = self.config
        samples = lstr_memory.samples(long, config, at)
        streams = torch.arange(rows.shape[0], device=rows.device)
        cached = long.key_value[streams, at.start % config.long_rate]  # (B, 2 · layers, h, L, w)
        if config.long_positions:
            position = config.long_samples - 1 - samples.age
            cached = cached + tables.long_key_value[:, :, position].permute(2, 0, 1, 3, 4)
        bias = self._long_bias(samples)[:, None, None]
        for index, layer in enumerate(self._modules_in_order[0].stack[1:]):
            rows = layer.after_self(rows, layer.self_attention(rows, rows))
            cross = layer.memory_attention
            key, value = cached[:, 2 * index], cached[:, 2 * index + 1]
            rows = layer.feed_forward(layer.after_cross(rows, cross.attend(cross.query(rows), key, value, bias)))
        return rows

    def _long_bias(self, samples: query_sums.Samples) -> Tensor:
        """What is added to the scores of samples: (B, L), -inf where there is none yet."""
        age = samples.age.to(samples.score.dtype)
        bias = torch.zeros_like(age) if self.config.decay == 1.0 else query_sums.age_bias(age, self.config.decay)
        return bias.masked_fill(~samples.present, -torch.inf)

    def _encode(self, rows: Tensor, tables: LstrTables) -> Tensor:
        """The encoded memory (N, m, d) out of the first module's rows (N, q, d)."""
        memory = self._modules_in_order[0].normed(rows)
        for index, module in enumerate(self._modules_in_order[1:], start=1):
            if module.queries is None:
                memory = module(memory)
                continue
            first = module.stack[0]
            cross = first.memory_attention
            scores = F.linear(memory, tables.matrices[index]).unflatten(-1, (cross.heads, -1))  # (N, n, h, q)
            weights = torch.softmax(scores.permute(0, 2, 3, 1), dim=-1)
            attended = cross.joined(torch.matmul(weights, cross.split(cross.value(memory))))
            rows = tables.queries[index].expand(memory.shape[0], -1, -1)
            rows = first.feed_forward(first.after_cross(rows, attended))
            for layer in module.stack[1:]:
                rows = layer(rows, memory)
            memory = module.normed(rows)
        return memory

    def _decode(self, memory: Tensor, window: Tensor, projected: Tensor, newest: Tensor) -> Tensor:
        """Logits (N, classes) of row `newest` (N,) of the work memory (N, W, d), whose projections are (N, W, c)."""
        config = self.config
        later = _later(config.work_samples, window)
        seen = F.pad(later, (memory.shape[1], 0)) if config.include_work else None
        rows = window
        parts = list(projected.split(config.width, dim=-1))
        for index, layer in enumerate(self._layers[:-1]):
            own, cross = layer.self_attention, layer.memory_attention
            if index == 0:
                query, key, value = (own.split(part) for part in parts[:3])
                attended = own.attend(query * own.scale, key, value, later)
            else:
                attended = own(rows, rows, later)
            rows = layer.after_self(rows, attended)
            key, value = cross.key_value(memory)
            if config.include_work:
                work_key, work_value = (cross.split(part) for part in parts[3 + 2 * index : 5 + 2 * index])
                key, value = torch.cat([key, work_key], dim=2), torch.cat([value, work_value], dim=2)
            rows = layer.after_cross(rows, cross.attend(cross.query(rows), key, value, seen))
            rows = layer.feed_forward(rows)
        last = self._layers[-1]
        there = torch.arange(config.work_samples, device=newest.device) <= newest.view(-1, 1, 1)
        row = rows[torch.arange(rows.shape[0], device=rows.device), newest]
        row = last.after_self(row, last.self_attention.attend_one(row, rows, there))
        looked_at = None
        if config.include_work:
            looked_at = F.pad(there, (memory.shape[1], 0), value=True)
            memory = torch.cat([memory, window], dim=1)
        row = last.after_cross(row, last.memory_attention.attend_one(row, memory, looked_at))
        return self._classified(last.feed_forward(row))

    def _classified(self, row: Tensor) -> Tensor:
        row = row if self.final_norm is None else self.final_norm(row)
        return F.linear(row, self.classifier.weight, self.classifier.bias)

    # ---- constants -----------------------------------------------------------------------------------------

    def _work_projections(self) -> list[tuple[MemoryAttention, int]]:
        """What the decoder projects the work memory with, before its last layer: attention, and where its rows begin.

        All of the first self-attention (from row 0 of its in-projection), and keys and values (from row d) of every
        cross-attention that reads the work memory.
        """
        layers = self._layers[:-1]
        projections = [(layers[0].self_attention, 0)] if layers else []
        if self.config.include_work:
            projections += [(layer.memory_attention, self.config.width) for layer in layers]
        return projections

    def _work_weight(self) -> Tensor:
        """(c, d)"""
        weights = [attention.in_projection.weight[first:] for attention, first in self._work_projections()]
        return torch.cat(weights) if weights else self.classifier.weight.new_zeros(0, self.config.width)

    def _tables(self) -> LstrTables:
        config = self.config
        queries, matrices = [], []
        for module in self._modules_in_order:
            if module.queries is None:
                queries.append(self.classifier.weight.new_zeros(0, config.width))
                matrices.append(queries[-1])
                continue
            first = module.stack[0]
            rows = module.queries.unsqueeze(0)
            queries.append(first.after_self(rows, first.self_attention(rows, rows))[0])
            matrices.append(first.memory_attention.score_matrix(queries[-1]))
        long = self._long_positions().unsqueeze(0)
        first, *others = self._modules_in_order[0].stack
        score = F.linear(long, matrices[0])[0].unflatten(-1, (config.heads, -1)).permute(1, 2, 0)
        projected = []
        for layer in (first, *others):
            projection = F.linear(long, layer.memory_attention.in_projection.weight[config.width :])
            projected += [layer.memory_attention.split(part)[0] for part in projection.chunk(2, dim=-1)]
        work = self._work_positions()
        weights = self._work_weight()
        biases = [attention.in_projection.bias[first:] for attention, first in self._work_projections()]
        bias = torch.cat(biases) if biases else weights.new_zeros(0)
        return LstrTables(
            queries=tuple(queries),
            matrices=tuple(matrices),
            long_score=score,
            long_value=projected[1],
            long_key_value=torch.stack(projected[2:]) if others else projected[1].new_zeros(0, *projected[1].shape),
            work_row=work,
            work_projected=F.linear(work, weights, bias),
        )


def sinusoids(positions: int, width: int) -> Tensor:
    """The fixed positions of LSTR (positions, width): sines and cosines of falling frequency, side by side."""
    frequencies = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(positions, dtype=torch.float64).unsqueeze(1) * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width].to(torch.get_default_dtype())


def _later(count: int, like: Tensor) -> Tensor:
    """(count, count): -inf where a row would look at a later one."""
    return like.new_full((count, count), -torch.inf).triu(1)
