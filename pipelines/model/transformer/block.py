"""One encoder block: its weights, and the five ways in which a stack runs it."""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.model.attention import retroactive
from pipelines.model.attention.banded import attend, attend_band, attend_one
from pipelines.model.attention.ring import Cursor
from pipelines.model.attention.window_cursor import WindowCursor
from pipelines.model.linear.projection import Projection
from pipelines.model.positions.places import NOWHERE, Places
from pipelines.model.positions.rotary import Rotation, rotate
from pipelines.model.state import CachedState, RetroactiveState, SingleOutputState
from pipelines.model.transformer.config import ModelConfig

NORM_EPSILON = 1e-5  # that of torch.nn.TransformerEncoderLayer and of OadTR


class Block(nn.Module):
    """Multi-head attention and feed-forward, each with a residual connection and a layer norm before or after it."""

    def __init__(self, config: ModelConfig, lag: int = 0) -> None:
        super().__init__()
        width = config.width
        self.config = config
        self.lag = lag
        self.in_projection = Projection(width, 3 * width, bias=config.in_projection_bias)
        self.out_projection = Projection(width, width, bias=config.out_projection_bias)
        self.expand = Projection(width, config.feed_forward)
        self.contract = Projection(config.feed_forward, width)
        self.attention_norm = nn.LayerNorm(width, eps=NORM_EPSILON)
        self.feed_forward_norm = nn.LayerNorm(width, eps=NORM_EPSILON)
        self.heads, self.head_width = config.heads, config.head_width
        # What the scores of a key get for its age, by head.
        self.age_bias = None
        if config.positional == "relative":
            self.age_bias = nn.Parameter(torch.zeros(config.heads, config.window))
        self.scale = 1 / math.sqrt(config.head_width)
        self.pre_norm = config.norm == "pre"
        self._norm_shape = (width,)
        self.activation = torch.relu_ if config.activation == "relu" else F.gelu
        nn.init.xavier_uniform_(self.in_projection.weight)

    # ---- parts that all ways share -------------------------------------------------------------------------

    def attention_input(self, rows: Tensor) -> Tensor:
        """What queries, keys and values are made of: (…, d)."""
        return self._norm("attention_norm", rows) if self.pre_norm else rows

    def project(self, rows: Tensor, turn: Rotation | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Query (scaled), key and value of rows: (B, m, d) to three (B, h, m, w), or (B, d) to three (B, h, w).

        turn: of queries and keys, with rotary positions.
        """
        query, key, value = self._project_unscaled(rows, turn)
        return query * self.scale, key, value

    def _project_unscaled(self, rows: Tensor, turn: Rotation | None = None) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = self._split(self._linear("in_projection", self.attention_input(rows)), 3)
        return rotate(query, turn), rotate(key, turn), value

    def project_query(self, rows: Tensor, turn: Rotation | None = None) -> Tensor:
        """The query (scaled) alone: a third of the work of `project`."""
        query = self.in_projection.project_part(self.attention_input(rows), 0, self.config.width)
        return rotate(self._split(query, 1)[0], turn) * self.scale

    def project_key_value(self, rows: Tensor, turn: Rotation | None = None) -> tuple[Tensor, Tensor]:
        """Key and value alone."""
        both = self.in_projection.project_part(self.attention_input(rows), self.config.width)
        key, value = self._split(both, 2)
        return rotate(key, turn), value

    def finish(self, rows: Tensor, attended: Tensor) -> Tensor:
        """Everything after attention. rows: (…, d) the block's input; attended: (…, d) heads side by side."""
        rows = rows + self._dropout(self._linear("out_projection", attended))
        if not self.pre_norm:
            rows = self._norm("attention_norm", rows)
            return self._norm("feed_forward_norm", rows + self._feed_forward(rows))
        return rows + self._feed_forward(self._norm("feed_forward_norm", rows))

    def _feed_forward(self, rows: Tensor) -> Tensor:
        hidden = self._dropout(self.activation(self._linear("expand", rows)))
        return self._dropout(self._linear("contract", hidden))

    # A step of a small model takes tens of microseconds, and a module call or a look-up of a parameter through
    # `nn.Module.__getattr__` about half a microsecond: hence the dictionaries.

    def _linear(self, name: str, rows: Tensor) -> Tensor:
        return cast(Projection, self._modules[name]).project(rows)

    def _norm(self, name: str, rows: Tensor) -> Tensor:
        parameters = self._modules[name]._parameters  # type: ignore[union-attr]
        return torch.layer_norm(rows, self._norm_shape, parameters["weight"], parameters["bias"], NORM_EPSILON)

    def _dropout(self, rows: Tensor) -> Tensor:
        return F.dropout(rows, self.config.dropout) if self.training and self.config.dropout else rows

    @property
    def _attention_dropout(self) -> float:
        return self.config.dropout if self.training else 0.0

    def _split(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        """(B, m, parts · d) to (B, h, m, w) each, or (B, parts · d) to (B, h, w) each."""
        if projected.dim() == 2:
            return projected.view(-1, parts, self.heads, self.head_width).unbind(1)
        batch, length, _ = projected.shape
        return projected.view(batch, length, parts, self.heads, self.head_width).permute(2, 0, 3, 1, 4).unbind(0)

    # ---- regular: all rows from all rows -------------------------------------------------------------------

    def forward(self, rows: Tensor, mask: Tensor | None = None, places: Places = NOWHERE) -> Tensor:
        """(B, m, d) to (B, m, d). mask: (B, 1, 1, m), true where a row may be seen."""
        return self.attend_rows(rows, self.project(rows, places.turn), mask, places.bias)

    def attend_rows(
        self,
        rows: Tensor,
        projected: tuple[Tensor, Tensor, Tensor],
        mask: Tensor | None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """`forward` with queries, keys and values (B, h, m, w) that are known already."""
        attended = attend(*projected, mask, self.config.attention_rows, self._attention_dropout, bias)
        return self.finish(rows, join_heads(attended))

    # ---- single output: one row from all rows --------------------------------------------------------------

    def newest(self, rows: Tensor, row: Tensor, mask: Tensor | None, places: Places = NOWHERE) -> Tensor:
        """The output (B, d) of one row (B, d) of the rows (B, m, d)."""
        return self.finish_one(row, *self.project_key_value(rows, places.turn), mask, places)

    def finish_one(
        self, row: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, places: Places = NOWHERE
    ) -> Tensor:
        """`newest` with keys and values (B, h, m, w) that are known already."""
        query = self.project_query(row, places.query_turn)
        attended = attend_one(query, key, value, mask, places.bias, self._attention_dropout)
        return self.finish(row, attended.flatten(1))

    def single_output_state(self, batch_size: int, class_token: Tensor | None) -> SingleOutputState:
        """An empty state. class_token: (d,), which takes slot 0 for good."""
        slots, width = self.config.window, self.config.width
        like = self.attention_norm.weight
        if class_token is None:
            key = like.new_zeros(batch_size, self.heads, slots, self.head_width)
            value = torch.zeros_like(key)
        else:
            key, value = (
                F.pad(x.unsqueeze(2), (0, 0, 0, slots)).repeat(batch_size, 1, 1, 1)
                for x in self.project_key_value(class_token.unsqueeze(0))
            )
        recent = like.new_zeros(batch_size, self.lag + 1 if self.lag else 0, width)
        return SingleOutputState(key, value, recent)

    def step_single_(
        self,
        token: Tensor,
        state: SingleOutputState,
        cursor: Cursor,
        class_token: Tensor | None,
        places: Places = NOWHERE,
    ) -> Tensor:
        """One token (B, d) in, one row (B, d) out: that of the class token, or of the token `lag` steps ago.

        The rings of `state` are written in place.
        """
        lead = 0 if class_token is None else 1
        if class_token is None and not self.lag:
            row = token
            query, key, value = self.project(token, places.turn)
        else:
            row = cursor.recent(state.recent, token) if class_token is None else class_token.expand_as(token)
            query = self.project_query(row, places.query_turn)
            key, value = self.project_key_value(token, places.turn)
        cursor.write(state.key, key, lead)
        cursor.write(state.value, value, lead)
        keys, values = cursor.occupied(state.key, lead), cursor.occupied(state.value, lead)
        attended = attend_one(query, keys, values, cursor.mask(lead), places.bias)
        return self.finish(row, attended.flatten(1))

    def steps_single(
        self,
        tokens: Tensor,
        state: SingleOutputState,
        position: Tensor,
        class_token: Tensor | None,
        places: Places = NOWHERE,
    ) -> tuple[Tensor, SingleOutputState]:
        """T tokens (B, T, d) in, T rows out: the same as T times `step_single_`. position: (B,) tokens seen before.

        The bias of `places` is by age here: (h, n).
        """
        length, n = tokens.shape[1], self.config.window
        before = torch.arange(1 - n, 0, device=tokens.device) + position.unsqueeze(1)  # (B, n - 1) index in the stream
        batch_rows = torch.arange(tokens.shape[0], device=tokens.device).unsqueeze(1)
        lead = 0 if class_token is None else 1
        if class_token is None and not self.lag:
            rows = tokens
            query, key, value = self.project(tokens, places.turn)
            recent = state.recent
        else:
            rows, recent = self._query_rows(tokens, state.recent, position, class_token)
            query = self.project_query(rows, places.query_turn)
            key, value = self.project_key_value(tokens, places.turn)
        slots = before % n + lead
        keys, values = (
            torch.cat([ring[batch_rows, :, slots], new.transpose(1, 2)], dim=1).transpose(1, 2)
            for ring, new in ((state.key, key), (state.value, value))
        )
        attended = attend_band(
            query,
            keys,
            values,
            before >= 0,
            state.key[:, :, :1] if lead else None,
            state.value[:, :, :1] if lead else None,
            self._attention_dropout,
            places.bias,
        )
        last = min(length, n)
        slots = (position.unsqueeze(1) + torch.arange(length - last, length, device=tokens.device)) % n + lead
        rings = []
        for ring, new in ((state.key, key), (state.value, value)):
            ring = ring.clone()
            ring[batch_rows, :, slots] = new[:, :, -last:].transpose(1, 2).to(ring.dtype)  # training may use 16 bits
            rings.append(ring)
        return self.finish(rows, join_heads(attended)), SingleOutputState(rings[0], rings[1], recent)

    def _query_rows(
        self, tokens: Tensor, recent: Tensor, position: Tensor, class_token: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The rows (B, T, d) whose outputs are wanted, and the ring of recent tokens after the chunk."""
        if class_token is not None:
            return class_token.expand_as(tokens), recent
        size, length = recent.shape[1], tokens.shape[1]
        batch_rows = torch.arange(tokens.shape[0], device=tokens.device).unsqueeze(1)
        place = position.unsqueeze(1) + torch.arange(-size, length, device=tokens.device)  # index in the stream
        timeline = torch.cat([recent[batch_rows, place[:, :size] % size], tokens], dim=1)
        # Token `lag` = size - 1 steps ago, or the first of the stream where there is none so old.
        wanted = torch.clamp(place[:, size:] - (size - 1), min=0) - place[:, :1]
        last = min(length, size)
        ring = recent.clone()
        ring[batch_rows, place[:, -last:] % size] = tokens[:, -last:].to(ring.dtype)  # training may use 16 bits
        return timeline[batch_rows, wanted], ring

    # ---- retroactive: all rows, brought up to date by one token --------------------------------------------

    def retroactive_state(self, batch_size: int, class_token: Tensor | None) -> RetroactiveState:
        """An empty state. class_token: (d,), which takes slot 0 for good, as key and as row."""
        slots = self.config.window + (0 if class_token is None else 1)
        state = retroactive.empty_state(batch_size, self.heads, slots, self.head_width, self.attention_norm.weight)
        if class_token is None:
            return state
        query, key, value = (x.unsqueeze(2).double() for x in self._project_unscaled(class_token.unsqueeze(0)))
        query, value = query * self.scale, retroactive.extended(value)
        sums, reference, error = retroactive.compute_rows(query, key, value, None)
        first = RetroactiveState(
            token=class_token.view(1, 1, -1),
            query=query,
            magnitude=torch.linalg.vector_norm(query, dim=-1, keepdim=True),
            key=key,
            value=value,
            sums=sums,
            reference=reference,
            error=error,
        )
        free = (state.token[:, 1:], *(ring[:, :, 1:] for ring in state[1:]))
        joined = [
            torch.cat([row.expand(batch_size, *row.shape[1:]), ring], dim=1 if row.dim() == 3 else 2)
            for row, ring in zip(first, free, strict=True)
        ]
        return RetroactiveState(*joined)

    def step_retroactive_(
        self,
        token: Tensor,
        state: RetroactiveState,
        cursor: Cursor,
        lead: int,
        turn: Rotation | None = None,
        fading: retroactive.Fading | None = None,
    ) -> Tensor:
        """One token (B, d) in, all rows (B, slots, d) out, in ring order. `state` is written in place."""
        query, key, value = self._project_unscaled(token, turn)
        cursor.write_row(state.token, token, lead)
        attended = retroactive.update_(state, query, key, value, self.scale, cursor, lead, fading)
        rows = cursor.occupied_rows(state.token, lead)
        return self.finish(rows, join_heads(attended.to(rows.dtype)))

    # ---- cached: all rows computed anew from projections that are kept ----------------------------------------

    def cached_state(self, batch_size: int, class_token: Tensor | None) -> CachedState:
        """An empty state. class_token: (d,), which takes slot 0 for good, as key and as row."""
        slots = self.config.window + (0 if class_token is None else 1)
        like = self.attention_norm.weight
        token = like.new_zeros(batch_size, slots, self.config.width)
        rings = [like.new_zeros(batch_size, self.heads, slots, self.head_width) for _ in range(3)]
        if class_token is not None:
            token[:, 0] = class_token
            for ring, part in zip(rings, self.project(class_token.unsqueeze(0)), strict=True):
                ring[:, :, 0] = part
        return CachedState(token, *rings)

    def step_cached_(
        self,
        token: Tensor,
        state: CachedState,
        cursor: Cursor,
        lead: int,
        turn: Rotation | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """One token (B, d) in, all rows (B, slots, d) out, in ring order. `state` is written in place."""
        cursor.write_row(state.token, token, lead)
        for ring, part in zip(state[1:], self.project(token, turn), strict=True):
            cursor.write(ring, part, lead)
        return self.cached_rows(state, cursor, lead, bias)

    def cached_rows(
        self, state: CachedState, cursor: Cursor | WindowCursor, lead: int, bias: Tensor | None = None
    ) -> Tensor:
        """All rows (B, slots, d) of what `state` holds."""
        query, key, value = (cursor.occupied(ring, lead) for ring in state[1:])
        rows = cursor.occupied_rows(state.token, lead)
        return self.attend_rows(rows, (query, key, value), cursor.mask(lead), bias)


def join_heads(attended: Tensor) -> Tensor:
    """(B, h, m, w) to (B, m, h · w)."""
    return attended.transpose(1, 2).flatten(2)
