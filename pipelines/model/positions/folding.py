"""Static positions, exactly, without projecting old tokens again.

A token's position in the window changes at every step, so its key does too: k = W·norm(x_j + p_i) + bias. But W is
linear, and a layer norm is linear up to a scale: with x̄, p̄ centred and γ, β the norm's weights,

    W·LN(x_j + p_i) + bias = (W(γ ⊙ x̄_j) + W(γ ⊙ p̄_i)) / σ(j, i) + (Wβ + bias)

(post-norm blocks have no norm here: σ = 1, and x, p as they are). The first term is computed once per token, the
second once per model; what is left for each step is the scale σ of n rows and one addition: O(nd).
"""

from __future__ import annotations

import torch
from torch import Tensor

from pipelines.model.attention.ring import Cursor
from pipelines.model.attention.window_cursor import WindowCursor
from pipelines.model.state import FoldedState, FoldedTables
from pipelines.model.transformer.block import Block


def tables(block: Block, positions: Tensor, class_row: Tensor | None) -> FoldedTables:
    """The constants of a block. positions: (n, d); class_row: (d,) the class token with its position, if any."""
    doubled = positions.repeat(2, 1)
    projected = _linear_part(block, doubled)  # three (2n, h, w)
    query, key, value = (part.transpose(0, 1) for part in projected)
    if class_row is None:
        rows = positions.new_zeros(1, 0, positions.shape[1])
        class_projection = positions.new_zeros(3, block.heads, 0, block.head_width)
    else:
        rows = class_row.view(1, 1, -1)
        class_projection = torch.stack([part[0].unsqueeze(1) for part in block.project(class_row.unsqueeze(0))])
    return FoldedTables(doubled, query, key, value, _shift(block), rows, class_projection)


def _linear_part(block: Block, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query (scaled), key and value of rows (m, d) without their norm's scale and constant part: three (m, h, w)."""
    projected = block.in_projection.project_part(_scaled_and_centred(block, rows), 0, biased=False)
    query, key, value = projected.view(-1, 3, block.heads, block.head_width).unbind(1)
    return query * block.scale, key, value


def _linear_key_value(block: Block, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Key and value of `_linear_part` alone."""
    projected = block.in_projection.project_part(_scaled_and_centred(block, rows), block.config.width, biased=False)
    key, value = projected.view(-1, 2, block.heads, block.head_width).unbind(1)
    return key, value


def _scaled_and_centred(block: Block, rows: Tensor) -> Tensor:
    """What of the norm is linear: γ ⊙ x̄ (post-norm blocks have no norm here)."""
    if not block.pre_norm:
        return rows
    return block.attention_norm.weight * (rows - rows.mean(-1, keepdim=True))


def _shift(block: Block) -> Tensor:
    """The constant part of query, key and value: (3, h, 1, w)."""
    projection = block.in_projection
    bias = projection.bias
    weight = projection.dense_weight()
    shift: Tensor = torch.zeros_like(weight[:, 0]) if bias is None else bias
    if block.pre_norm:
        shift = shift + torch.mv(weight, block.attention_norm.bias)
    query, key, value = shift.view(3, block.heads, 1, block.head_width)
    return torch.stack([query * block.scale, key, value])


def empty_state(block: Block, batch_size: int, all_rows: bool) -> FoldedState:
    """A state without tokens. all_rows: whether old tokens' queries are needed too."""
    n, width = block.config.window, block.config.width
    like = block.attention_norm.weight
    ring = (batch_size, block.heads, n, block.head_width)
    return FoldedState(
        token=like.new_zeros(batch_size, n, width),
        query=like.new_zeros(ring if all_rows else (batch_size, block.heads, 0, block.head_width)),
        key=like.new_zeros(ring),
        value=like.new_zeros(ring),
    )


def take_in(block: Block, token: Tensor, state: FoldedState, cursor: Cursor) -> None:
    """Write one token (B, d), projected once and for all, into the rings."""
    cursor.write_row(state.token, token)
    if state.query.shape[2]:
        query, key, value = _linear_part(block, token)
        cursor.write(state.query, query)
    else:
        key, value = _linear_key_value(block, token)
    cursor.write(state.key, key)
    cursor.write(state.value, value)


def chunk_state(block: Block, tokens: Tensor) -> FoldedState:
    """What `take_in` keeps of each token of a chunk (B, T, d), for the windows of the chunk."""
    batch, length, width = tokens.shape
    parts = _linear_part(block, tokens.reshape(-1, width))
    shape = (batch, length, block.heads, block.head_width)
    return FoldedState(tokens, *(part.reshape(shape).transpose(1, 2) for part in parts))


def rows(state: FoldedState, table: FoldedTables, cursor: Cursor | WindowCursor) -> Tensor:
    """Tokens with their present positions, the class token first: (B, slots, d)."""
    present = cursor.occupied_rows(state.token) + cursor.rotated(table.position)
    if not table.class_row.shape[1]:
        return present
    return torch.cat([table.class_row.expand(present.shape[0], 1, -1), present], dim=1)


def projections(
    block: Block, state: FoldedState, table: FoldedTables, cursor: Cursor | WindowCursor, present: Tensor
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Query (scaled; None unless all rows' are kept), key and value (B, h, slots, w) of the rows `present`."""
    inverse = None
    if block.pre_norm:
        lead = table.class_row.shape[1]
        variance = torch.var(present[:, lead:], dim=-1, correction=0)
        inverse = torch.rsqrt(variance + block.attention_norm.eps)[:, None, :, None]

    def assemble(ring: Tensor, positions: Tensor, index: int) -> Tensor:
        part = cursor.occupied(ring) + cursor.rotated(positions)
        part = part + table.shift[index] if inverse is None else torch.addcmul(table.shift[index], part, inverse)
        if table.class_row.shape[1]:
            part = torch.cat([table.class_projection[index].expand(part.shape[0], -1, -1, -1), part], dim=2)
        return part

    key = assemble(state.key, table.key, 1)
    value = assemble(state.value, table.value, 2)
    return assemble(state.query, table.query, 0) if state.query.shape[2] else None, key, value
