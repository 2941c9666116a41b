"""The stack of blocks: as a regular encoder on a window, and continually, one token or one chunk at a time.

exact stacking: block 1 is retroactive (or folded, with static positions), blocks 2 … b - 1 are regular, and the last
computes one row only; a single block is single-output. deep stacking: every block is single-output.
Rows stay in ring order all the way: nothing after the positional encoding depends on order.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from pipelines.errors import ConfigurationError, InputError
from pipelines.model.attention.ring import Cursor, LockstepCursor, cursor_for
from pipelines.model.attention.window_cursor import WindowCursor
from pipelines.model.positions import folding
from pipelines.model.positions.encodings import PositionalEncoding
from pipelines.model.positions.places import (
    NOWHERE,
    Places,
    bias_by_age,
    fading,
    place_tables,
    row_turn,
    slot_bias,
    slot_turn,
    turn_at,
    window_places,
)
from pipelines.model.positions.rotary import Rotation
from pipelines.model.state import (
    AgeTables,
    BlockState,
    CachedState,
    FoldedState,
    FoldedTables,
    RetroactiveState,
    RotaryTables,
    SingleOutputState,
    StreamState,
)
from pipelines.model.transformer.alone import may_step_alone, stream_alone
from pipelines.model.transformer.block import Block
from pipelines.model.transformer.config import RELATIVE, ModelConfig
from pipelines.model.transformer.lone_stream import LoneStream
from pipelines.model.transformer.native_stream import NativeStream

# Tokens per banded pass: bounds the memory of `steps` on long recordings.
CHUNK = 2048


class Rows(NamedTuple):
    """All rows of the window after some block."""

    rows: Tensor  # (B, m, d)
    lead: int  # rows at the front that belong to the class token: 0 or 1


class ContinualEncoder(nn.Module):
    """Positional encoding, class token and blocks: tokens of width d in, rows of width d out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        # An output may lag behind its input only once: in the last block.
        lags = [0] * (config.blocks - 1) + [config.lag]
        self.blocks = nn.ModuleList(Block(config, lag) for lag in lags)
        self._stack = cast("tuple[Block, ...]", tuple(self.blocks))
        self.positions = PositionalEncoding(config) if config.position_count else None
        self.class_token = None
        if config.class_token_block is not None:
            self.class_token = nn.Parameter(torch.zeros(config.width))
            if not self.class_token.is_meta:  # random numbers for no memory make torch load its compiler
                nn.init.normal_(self.class_token, std=0.02)
        # Whether the last block computes all rows (a decoder reads them) or one.
        self.all_rows = config.decoder_blocks > 0
        self._single_output = config.stacking == "deep" or config.blocks == 1
        # Whether block 1 takes static positions, which make its keys change at every step.
        self._folded = config.positional == "static"
        self._recycling = config.positional == "recycling"
        # Whether scores depend on ages or differences, rather than tokens on positions.
        self._placed = config.positional in RELATIVE
        # Whether one stream may step alone, how the state that was stepped last does, and which state (its id) it was.
        self._can_be_alone = may_step_alone(config)
        self._lone: LoneStream | NativeStream | None = None
        self._stepped = 0

    def _apply(self, *arguments: Any, **named: Any) -> Any:
        self._lone = None  # it may know where weights were
        return super()._apply(*arguments, **named)  # type: ignore[no-untyped-call]

    def _load_from_state_dict(self, *arguments: Any, **named: Any) -> None:
        self._lone = None
        super()._load_from_state_dict(*arguments, **named)

    @property
    def banded(self) -> bool:
        """Whether `steps` is one banded pass."""
        return self._single_output and not self._folded and not self.all_rows

    # ---- the regular encoder -------------------------------------------------------------------------------

    def forward(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        """The regular encoder on a window: (B, T, d) to (B, T, d), or (B, 1 + T, d) with the class token's row first.

        start: index in the stream of the window's first token, one for all or one for each row (B,). A deep stack
        takes any T and returns, for each token, its single-output row (B, T, d).
        """
        if self.config.stacking == "deep":
            return self.steps(tokens, self.initial_state(tokens.shape[0], start))[0]
        if not 1 <= tokens.shape[1] <= self.config.window:
            raise InputError(f"a window has 1 to {self.config.window} tokens, not {tokens.shape[1]}")
        rows = tokens
        if self.positions is not None:
            rows = rows + self.positions.window(tokens.shape[1], start, tokens.shape[0])
        for index, block in enumerate(self._stack, start=1):
            if index == self.config.class_token_block:
                rows = torch.cat([self._class_row(index).expand(rows.shape[0], 1, -1), rows], dim=1)
            lead = rows.shape[1] - tokens.shape[1]
            rows = block(rows, places=window_places(self.config, block.age_bias, tokens.shape[1], lead, rows))
        return rows

    def newest(self, rows: Tensor) -> Tensor:
        """The row (B, d) that a prediction is made from, out of what `forward` returns."""
        if self.class_token is not None and self.config.stacking == "exact":
            return rows[:, 0]
        if self.config.stacking == "deep":
            return rows[:, -1]
        return rows[:, max(rows.shape[1] - 1 - self.config.lag, 0)]

    # ---- continual inference -------------------------------------------------------------------------------

    def initial_state(self, batch_size: int = 1, start: int | Tensor = 0, cached: bool = False) -> StreamState:
        """The state of `batch_size` streams before their first token.

        start: index of that token for recycling encodings (training starts anywhere), one for all or (B,). cached: with
        cached rows instead of retroactive ones, as `ContinualModel.traced_state` needs it.
        """
        if batch_size < 1:
            raise ConfigurationError(f"batch_size must be at least 1, not {batch_size}")
        device = self._like.device
        offset = torch.as_tensor(start, dtype=torch.long, device=device).expand(batch_size).contiguous().clone()
        tables = self._folded_tables() if self._folded else self._place_tables()
        states = tuple(self._block_state(index, batch_size, cached) for index in range(1, self.config.blocks + 1))
        return StreamState(torch.zeros(batch_size, dtype=torch.long, device=device), offset, states, tables)

    def step(self, token: Tensor, state: StreamState, active: Tensor | None = None) -> tuple[Tensor, StreamState]:
        """One token (B, d) in, one row (B, d) out. `state` is left as it is.

        active: (B,) bool; rows that are not active keep their state, and their output means nothing.
        """
        return self.step_(token, state.clone(), active)

    def step_(self, token: Tensor, state: StreamState, active: Tensor | None = None) -> tuple[Tensor, StreamState]:
        """`step` for a caller who owns `state`: its rings are written in place."""
        lone = self._lone
        alone = lone is not None and active is None and len(token) == 1 and not self.training
        if alone and lone is not None and lone.takes(token, state):
            return lone.step_(self._positioned(token, state) if self._recycling else token), state
        cursor = cursor_for(state.position, self.config.window, active)
        if self.all_rows or not self._single_output:
            rows = self._step_rows_(token, state, cursor)
            output = self._output_row(rows, cursor) if self.all_rows else self._last_block(rows, state, cursor)
        else:
            output = self._step_single_(token, state, cursor)
        state.position.add_(1 if active is None else active)
        if self._can_be_alone and isinstance(cursor, LockstepCursor) and state.batch_size == 1:
            self._recognise(state)
        return output, state

    def expect(self, state: StreamState) -> None:
        """As `ContinualModel.expect`."""
        if self._can_be_alone:
            self._stepped = id(state)
            self._recognise(state)

    def step_some_(self, tokens: Tensor, state: StreamState, streams: Tensor) -> Tensor | None:
        """`step_` for some streams (k,) of a batch, without a copy of their state: tokens (k, d) in, rows (k, d) out.

        None, and nothing done: such a step is not known for this encoder or state.
        """
        if not self._can_be_alone or self.training:
            return None
        self._recognise(state)
        native = self._lone
        if not isinstance(native, NativeStream) or not native.takes(tokens, state):
            return None
        if self._recycling:
            positions = cast(PositionalEncoding, self.positions)
            tokens = tokens + positions.at(state.position[streams] + state.offset[streams])
        return native.step_some_(tokens, streams)

    def step_rows_(
        self, token: Tensor, state: StreamState, active: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None, StreamState]:
        """`step_` for a model with a decoder: the output row (B, d), all rows (B, m, d) and which of them are there."""
        cursor = cursor_for(state.position, self.config.window, active)
        rows = self._step_rows_(token, state, cursor)
        output, mask = self._output_row(rows, cursor), cursor.mask(rows.lead)
        state.position.add_(1 if active is None else active)
        return output, rows.rows, mask, state

    def steps(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        """T tokens (B, T, d) in, T rows (B, T, d) out: the same as T steps. `state` is left as it is.

        For single-output stacks this is one banded pass per 2,048 tokens, with gradients.
        """
        if not tokens.shape[1]:
            return tokens, state
        if not self.banded:
            outputs = []
            state = state.clone()
            # What autograd has saved of one step must not be overwritten by the next.
            advance = self.step if torch.is_grad_enabled() else self.step_
            for token in tokens.unbind(1):
                output, state = advance(token, state)
                outputs.append(output)
            return torch.stack(outputs, dim=1), state
        parts = []
        for part in torch.split(tokens, CHUNK, dim=1):
            rows, state = self._chunk(part, state)
            parts.append(rows)
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1), state

    # ---- windows of a chunk --------------------------------------------------------------------------------

    def windows(self, tokens: Tensor, start: Tensor, cursor: WindowCursor) -> tuple[Tensor, Rows | None]:
        """The output row (K, d) of windows of a chunk of tokens (B, T, d), and all rows where a decoder reads them.

        What belongs to a token alone, block 1's query, key and value above all, is computed once for all windows that
        it is in. start: (B,) as in `initial_state`. For exact stacks that have no banded pass.
        """
        state = self._chunk_state(tokens, start)
        first = state.blocks[0]
        if isinstance(first, FoldedState):
            tables = cast(FoldedTables, state.tables)
            if self._single_output and not self.all_rows:
                return self._folded_row(self._stack[0], first, tables, cursor), None
            rows = Rows(self._folded_rows(first, tables, cursor), tables.class_row.shape[1])
        else:
            lead = 1 if self.config.class_token_block == 1 else 0
            bias = slot_bias(state.tables, 0, cursor, lead, tokens.dtype)
            rows = Rows(self._stack[0].cached_rows(cast(CachedState, first), cursor, lead, bias), lead)
        rows = self._middle_blocks(rows, state, cursor)
        if self.all_rows:
            return self._output_row(rows, cursor), rows
        return self._last_block(rows, state, cursor), None

    def _chunk_state(self, tokens: Tensor, start: Tensor) -> StreamState:
        """A state whose first block holds all tokens of a chunk (B, T, d) instead of a window's."""
        state = self.initial_state(tokens.shape[0], start, cached=True)
        block = self._stack[0]
        first: BlockState
        if self._folded:
            first = folding.chunk_state(block, tokens)
        else:
            place = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape[:2])
            if self._recycling:
                tokens = tokens + cast(PositionalEncoding, self.positions).at(place + state.offset.unsqueeze(1))
            projected = block.project(tokens, turn_at(state, place, tokens.dtype))
            held = cast(CachedState, state.blocks[0])
            lead = 1 if self.config.class_token_block == 1 else 0
            rings = [torch.cat([ring[:, :, :lead], part], 2) for ring, part in zip(held[1:], projected, strict=True)]
            first = CachedState(torch.cat([held.token[:, :lead], tokens], dim=1), *rings)
        return state._replace(blocks=(first, *state.blocks[1:]))

    # ---- how the parts are put together --------------------------------------------------------------------

    @property
    def _like(self) -> Tensor:
        """A tensor with the device and the precision of activations and state."""
        return self._stack[0].attention_norm.weight

    def _class_row(self, index: int) -> Tensor:
        """The class token (d,) as it enters block `index`: a static table's last entry is its position."""
        token = cast(Tensor, self.class_token)
        has_position = index == 1 and self._folded and self.config.position_count > self.config.window
        return token + cast(PositionalEncoding, self.positions).table[-1] if has_position else token

    def _class_token_at(self, index: int) -> Tensor | None:
        return self._class_row(index) if index == self.config.class_token_block else None

    def _folded_tables(self) -> FoldedTables:
        positions = cast(PositionalEncoding, self.positions).table[: self.config.window]
        return folding.tables(self._stack[0], positions, self._class_token_at(1))

    def _place_tables(self) -> AgeTables | RotaryTables | None:
        if not self._placed:
            return None
        return place_tables(self.config, [block.age_bias for block in self._stack], self._like)

    def _block_state(self, index: int, batch_size: int, cached: bool) -> BlockState:
        block = self._stack[index - 1]
        if index == 1 and self._folded:
            return folding.empty_state(block, batch_size, all_rows=not self._single_output or self.all_rows)
        if self._single_output and not self.all_rows:
            return block.single_output_state(batch_size, self._class_token_at(index))
        if index == 1 and cached:
            return block.cached_state(batch_size, self._class_token_at(index))
        if index == 1:
            return block.retroactive_state(batch_size, self._class_token_at(index))
        return None

    def _positioned(self, token: Tensor, state: StreamState) -> Tensor:
        """A token (B, d) with its recycling encoding, which it keeps as long as it lives."""
        positions = cast(PositionalEncoding, self.positions)
        return token + positions.at(state.position + state.offset)

    def _step_single_(self, token: Tensor, state: StreamState, cursor: Cursor) -> Tensor:
        row = self._positioned(token, state) if self._recycling else token
        turns = self._arrival_turns(state, state.position) if self._placed else None
        for index, block in enumerate(self._stack):
            block_state = state.blocks[index]
            if isinstance(block_state, FoldedState):
                folding.take_in(block, row, block_state, cursor)
                row = self._folded_row(block, block_state, cast(FoldedTables, state.tables), cursor)
            else:
                single = cast(SingleOutputState, block_state)
                class_token = self._class_token_at(index + 1)
                places = NOWHERE
                if turns is not None:
                    bias = slot_bias(state.tables, index, cursor, 0 if class_token is None else 1, row.dtype)
                    places = Places(bias, *turns)
                row = block.step_single_(row, single, cursor, class_token, places)
        return row

    def _recognise(self, state: StreamState) -> None:
        """Make what a state's next steps can use, once it comes for the second time: a value is never seen again."""
        if self._stepped == id(state) and (self._lone is None or self._lone.state is not state):
            self._lone = stream_alone(self._stack, state)
        self._stepped = id(state)

    def _arrival_turns(self, state: StreamState, position: Tensor) -> tuple[Rotation | None, Rotation | None]:
        """How tokens at these places (B,) or (B, T) are turned, and the tokens whose outputs are due with them."""
        dtype = self._like.dtype
        turn = turn_at(state, position, dtype)
        if turn is None or not self.config.lag:
            return turn, turn
        return turn, turn_at(state, torch.clamp(position - self.config.lag, min=0), dtype)

    def _folded_row(
        self, block: Block, state: FoldedState, tables: FoldedTables, cursor: Cursor | WindowCursor
    ) -> Tensor:
        """One output row (B, d) of a folded first block."""
        rows = folding.rows(state, tables, cursor)
        _, key, value = folding.projections(block, state, tables, cursor, rows)
        lead = tables.class_row.shape[1]
        # A class token of a deep stack comes later, and what goes on from here is the newest token's row.
        row = rows[:, 0] if lead else cursor.row(rows, block.lag).squeeze(1)
        return block.finish_one(row, key, value, cursor.mask(lead))

    def _step_rows_(self, token: Tensor, state: StreamState, cursor: Cursor) -> Rows:
        """All blocks but the last (or all, for a decoder) on all rows."""
        blocks = self._stack
        first = state.blocks[0]
        lead = 1 if self.config.class_token_block == 1 else 0
        rows: Tensor
        if isinstance(first, FoldedState):
            folding.take_in(blocks[0], token, first, cursor)
            rows = self._folded_rows(first, cast(FoldedTables, state.tables), cursor)
        else:
            token = self._positioned(token, state) if self._recycling else token
            turn = turn_at(state, state.position, token.dtype)
            if isinstance(first, CachedState):
                bias = slot_bias(state.tables, 0, cursor, lead, token.dtype)
                rows = blocks[0].step_cached_(token, first, cursor, lead, turn, bias)
            else:
                retroactive = cast(RetroactiveState, first)
                rows = blocks[0].step_retroactive_(token, retroactive, cursor, lead, turn, fading(state.tables, cursor))
        return self._middle_blocks(Rows(rows, lead), state, cursor)

    def _folded_rows(self, first: FoldedState, tables: FoldedTables, cursor: Cursor | WindowCursor) -> Tensor:
        """All rows of a folded first block."""
        block, lead = self._stack[0], tables.class_row.shape[1]
        present = folding.rows(first, tables, cursor)
        query, key, value = folding.projections(block, first, tables, cursor, present)
        return block.attend_rows(present, (cast(Tensor, query), key, value), cursor.mask(lead))

    def _middle_blocks(self, rows: Rows, state: StreamState, cursor: Cursor | WindowCursor) -> Rows:
        """Blocks 2 to the last but one (to the last, for a decoder) on all rows that block 1 gave."""
        tokens, lead = rows
        for index in range(2, len(self._stack) + self.all_rows):
            tokens, lead = self._with_class_token(tokens, lead, index)
            places = self._ring_places(state, index, cursor, lead)
            tokens = self._stack[index - 1](tokens, cursor.mask(lead), places)
        return Rows(tokens, lead)

    def _ring_places(self, state: StreamState, index: int, cursor: Cursor | WindowCursor, lead: int) -> Places:
        """All rows that enter block `index` of an exact stack, in ring order, and the one whose output is wanted."""
        if not self._placed:
            return NOWHERE
        turn = slot_turn(state.tables, cursor)
        bias = slot_bias(state.tables, index - 1, cursor, lead, self._like.dtype)
        return Places(bias, turn, row_turn(turn, cursor, self.config.lag))

    def _with_class_token(self, rows: Tensor, lead: int, index: int) -> tuple[Tensor, int]:
        if index != self.config.class_token_block or lead:
            return rows, lead
        return torch.cat([self._class_row(index).expand(rows.shape[0], 1, -1), rows], dim=1), 1

    def _output_row(self, rows: Rows, cursor: Cursor | WindowCursor) -> Tensor:
        """The row (B, d) that a prediction is made from."""
        if self.class_token is not None:
            return rows.rows[:, 0]
        return cursor.row(rows.rows, self.config.lag).squeeze(1)

    def _last_block(self, rows: Rows, state: StreamState, cursor: Cursor | WindowCursor) -> Tensor:
        """One row (B, d) of the last block of an exact stack of two or more."""
        tokens, lead = self._with_class_token(rows.rows, rows.lead, self.config.blocks)
        rows = Rows(tokens, lead)
        places = self._ring_places(state, self.config.blocks, cursor, lead)
        return self._stack[-1].newest(tokens, self._output_row(rows, cursor), cursor.mask(lead), places)

    def _chunk(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        """One banded pass through single-output blocks."""
        length = tokens.shape[1]
        place = state.position.unsqueeze(1) + torch.arange(length, device=tokens.device)  # (B, T) in the stream
        rows = tokens
        if self.positions is not None:
            rows = rows + self.positions.at(place + state.offset.unsqueeze(1))
        turn, query_turn = self._arrival_turns(state, place)
        states: list[BlockState] = []
        for index, (block, block_state) in enumerate(zip(self._stack, state.blocks, strict=True), start=1):
            single = cast(SingleOutputState, block_state)
            places = Places(bias_by_age(self.config, block.age_bias, rows), turn, query_turn)
            rows, single = block.steps_single(rows, single, state.position, self._class_token_at(index), places)
            states.append(single)
        return rows, state._replace(blocks=tuple(states), position=state.position + length)
