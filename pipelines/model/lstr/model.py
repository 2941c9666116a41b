"""LSTR and TeSTra: a long memory compressed by learned queries, and a work memory that reads it.

`forward` is the regular model: everything from the frames of a window. A step gives the same numbers and computes

- of the feature heads, and of scores and values in the long memory, the newest frame only;
- the sums over the long memory by two terms (`query_sums.py`), or, with positions, from cached scores and values to
  which those of the positions are added (`lstr_encoder.py`);
- of the decoder, projections of the newest frame only, and of its last layer the newest row only (`lstr_decoder.py`).

What remains is computed anew at every step, since every row of it changes.

A small model (`LstrConfig.in_float64`) takes frames and gives logits in float32, and computes in float64: windows by
weights that are converted for each, steps by a copy of the model that is made with a stream's state.
"""

from __future__ import annotations

import copy
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from pipelines.errors import InputError
from pipelines.model.attention import query_sums
from pipelines.model.continual_model import ContinualModel
from pipelines.model.linear.projection import PackedProjection, Projection
from pipelines.model.lstr import memory as lstr_memory
from pipelines.model.lstr.config import LstrConfig
from pipelines.model.lstr.decoder import DecoderTables, LstrDecoder
from pipelines.model.lstr.encoder import EncoderTables, LstrEncoder
from pipelines.model.lstr.memory import LongState, WorkState
from pipelines.model.state import StreamState

# Frames whose encoder and decoder run together in `steps`.
CHUNK = 16


class LstrTables(NamedTuple):
    """Constants of the weights, and the model that they are of: the one that was asked, or its copy in float64."""

    model: LstrModel
    encoder: EncoderTables
    decoder: DecoderTables


class LstrModel(ContinualModel):
    """Class scores for a stream of frames."""

    config: LstrConfig

    def __init__(self, config: LstrConfig) -> None:
        super().__init__()
        self.config = config
        self.long_head = Projection(config.input_width, config.width) if config.feature_head else None
        self.work_head = Projection(config.input_width, config.width) if config.feature_head else None
        self.positions: Tensor | None
        count = config.position_count
        self.register_buffer("positions", sinusoids(count, config.width) if count else None)
        self.long_encoder = LstrEncoder(config)
        self.work_decoder = LstrDecoder(config)
        self.classifier = Projection(config.width, config.classes)

    # ---- the regular model ---------------------------------------------------------------------------------

    def forward(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        """The regular model on a window: (B, T <= window, input_width) to the newest frame's logits (B, classes).

        A window that is not full is the beginning of a stream.
        """
        config = self.config
        if not 1 <= tokens.shape[1] <= config.window:
            raise InputError(f"a window has 1 to {config.window} frames, not {tokens.shape[1]}")
        if self._widens and not torch.is_grad_enabled():  # training is in its own precision
            weights = {name: value.double() for name, value in self.state_dict(keep_vars=True).items()}
            logits: Tensor = torch.func.functional_call(self, weights, (tokens.double(),))
            return logits.to(tokens.dtype)
        at = lstr_memory.place(config, torch.tensor([tokens.shape[1] - 1]))
        begin, newest = int(at.start), int(at.row)
        sampled = self._sampled(begin, min(int(at.entered), config.long_samples))
        memory = self.long_encoder(self._with_long_positions(self._head(self.long_head, tokens[:, sampled])))
        rows = self._head(self.work_head, tokens[:, begin :: config.work_rate])
        return self._classified(self.work_decoder(rows + self._work_positions()[: newest + 1], memory))

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
            return self._like.new_zeros(0, config.width)
        return self.positions[: config.long_samples]

    def _work_positions(self) -> Tensor:
        """(W, d), zeros where the work memory has no positions."""
        config = self.config
        if self.positions is None or not config.work_positions:
            return self._like.new_zeros(config.work_samples, config.width)
        return self.positions[-config.work_samples :]

    # ---- continual inference -------------------------------------------------------------------------------

    def initial_state(self, batch_size: int = 1, start: int | Tensor = 0) -> StreamState:
        """The state of `batch_size` streams before their first frame."""
        if self._widens:
            return copy.deepcopy(self).double().initial_state(batch_size, start)
        config = self.config
        like = self._like
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
        tables = LstrTables(
            self, self.long_encoder.tables(self._long_positions()), self.work_decoder.tables(self._work_positions())
        )
        encoded = config.work_rate if config.work_rate > config.long_rate else 0
        work = WorkState(
            row=like.new_zeros(batch_size, config.span, config.width),
            projected=like.new_zeros(batch_size, config.span, tables.decoder.projected.shape[1]),
            encoded=like.new_zeros(batch_size, encoded, config.encoded_rows, config.width),
        )
        return StreamState(*self._places(batch_size, start), (long, work), tables)

    def _step_(self, token: Tensor, state: StreamState, active: Tensor | None) -> tuple[Tensor, StreamState]:
        logits = self._frames_(token.unsqueeze(1), state, active).squeeze(1)
        return logits, state

    def _steps(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        """Feature heads, encoder and decoder of 16 frames at a time."""
        state = state.clone()
        size = CHUNK if self.takes_chunks else 1
        parts = [self._frames_(part, state, None) for part in torch.split(tokens, size, dim=1)]
        return torch.cat(parts, dim=1), state

    @torch.no_grad()
    def _frames_(self, tokens: Tensor, state: StreamState, active: Tensor | None) -> Tensor:
        """Logits (B, T, classes) of the next frames (B, T, input_width); `state` is written in place."""
        model = cast(LstrTables, state.tables).model
        return model._computed_(tokens.to(model.dtype), state, active).to(tokens.dtype)

    def _computed_(self, tokens: Tensor, state: StreamState, active: Tensor | None) -> Tensor:
        """`_frames_` in the precision of this model and of the state."""
        config = self.config
        long, work = cast("tuple[LongState, WorkState]", state.blocks)
        tables = cast(LstrTables, state.tables)
        brought = self.long_encoder.brought(self._head(self.long_head, tokens), tables.encoder)
        rows = self._head(self.work_head, tokens)
        projected = self.work_decoder.project(rows)
        compressed, windows, projections, newest = [], [], [], []
        for index in range(tokens.shape[1]):
            at = lstr_memory.place(config, state.position)
            lstr_memory.enter_(long, config, brought[:, index], at, active)
            lstr_memory.remember_(work, rows[:, index], projected[:, index], at, active)
            compressed.append(self.long_encoder.compress(long, at, tables.encoder))
            window, projection = lstr_memory.work_rows(work, config, at)
            windows.append(window)
            projections.append(projection)
            newest.append(at.row)
            state.position.add_(1 if active is None else active)
        memory = self.long_encoder.encode(torch.cat(compressed), tables.encoder)
        memory = lstr_memory.recalled_(work, config, memory, at, active)
        window, projection = torch.cat(windows) + tables.decoder.row, torch.cat(projections) + tables.decoder.projected
        logits = self._classified(self.work_decoder.newest(memory, window, projection, torch.cat(newest)))
        return logits.view(tokens.shape[1], tokens.shape[0], -1).transpose(0, 1)

    @property
    def takes_chunks(self) -> bool:
        # With more layers on the long memory, each frame has keys and values of its own.
        return self.config.encoder_layers[0] == 1 and self.config.work_rate <= self.config.long_rate

    @property
    def input_layers(self) -> tuple[Projection, ...]:
        return () if self.long_head is None or self.work_head is None else (self.long_head, self.work_head)

    # ---- parts ---------------------------------------------------------------------------------------------

    @property
    def _widens(self) -> bool:
        """Whether this is a model in float32 that computes in float64. One with packed weights has chosen otherwise."""
        packed = any(isinstance(layer, PackedProjection) for layer in self.modules())
        return self.config.in_float64 and self.dtype == torch.float32 and not packed

    def _head(self, head: Projection | None, frames: Tensor) -> Tensor:
        return frames if head is None else F.relu(head.project(frames))

    def _classified(self, row: Tensor) -> Tensor:
        return self.classifier.project(row)


def sinusoids(positions: int, width: int) -> Tensor:
    """The fixed positions of LSTR (positions, width): sines and cosines of falling frequency, side by side."""
    frequencies = 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(positions, dtype=torch.float64).unsqueeze(1) * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width].to(torch.get_default_dtype())
