"""The state of streams: plain values made of batch-first tensors, one row per stream.

Nothing is hidden in modules. `step` leaves the state it is given alone; `step_` writes the rings of a state that
the caller owns. Rows can be taken out, put together and set back to the beginning at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

T = TypeVar("T")


class SingleOutputState(NamedTuple):
    """Keys and values of the window, in ring order (slot 0 first holds the class token, where there is one).

    With `lag`, `recent` holds the last lag + 1 inputs of the block, since the query is of one of them.
    """

    key: Tensor  # (B, h, slots, d / h)
    value: Tensor  # (B, h, slots, d / h)
    recent: Tensor  # (B, lag + 1, d), or (B, 0, d) without lag


class RetroactiveState(NamedTuple):
    """All n rows of attention, brought up to date by each token. See `retroactive.py`.

    The last two columns of `sums` are the row's mass (sum of weights) and its value mass (weights times the
    largest magnitude of each value).
    """

    token: Tensor  # (B, slots, d) block input, for the residual
    query: Tensor  # (B, h, slots, d / h) float64
    magnitude: Tensor  # (B, h, slots, 1) float64: Euclidean norm of each query
    key: Tensor  # (B, h, slots, d / h) float64
    value: Tensor  # (B, h, slots, d / h + 2) float64, with a column of ones and one of largest magnitudes
    sums: Tensor  # (B, h, slots, d / h + 2) float64: weighted sum of values, mass, value mass
    reference: Tensor  # (B, h, slots, 1) float64: what exponents are taken relative to
    error: Tensor  # (B, h, slots, 2) float64: bound of the absolute error of mass and value mass


class CachedState(NamedTuple):
    """Inputs and projections of the window, from which a step computes all rows anew.

    As exact as a retroactive state, and without branches on values: what an exported graph carries in its place.
    """

    token: Tensor  # (B, slots, d) block input, for the residual
    query: Tensor  # (B, h, slots, d / h), scaled
    key: Tensor  # (B, h, slots, d / h)
    value: Tensor  # (B, h, slots, d / h)


class FoldedState(NamedTuple):
    """Tokens of the window and their projections without position. See `folding.py`."""

    token: Tensor  # (B, n, d)
    query: Tensor  # (B, h, n, d / h); (B, h, 0, d / h) where only the newest row is needed
    key: Tensor  # (B, h, n, d / h)
    value: Tensor  # (B, h, n, d / h)


class FoldedTables(NamedTuple):
    """What positions and class token add in a folded block: constants of the weights, shared by all rows.

    The tables are doubled along the positions so that any rotation of them is a slice.
    """

    position: Tensor  # (2n, d)
    query: Tensor  # (h, 2n, d / h)
    key: Tensor  # (h, 2n, d / h)
    value: Tensor  # (h, 2n, d / h)
    shift: Tensor  # (3, h, 1, d / h) what is added to query, key and value after scaling
    class_row: Tensor  # (1, 0 or 1, d) class token with its position
    class_projection: Tensor  # (3, h, 0 or 1, d / h) its query, key and value


class AgeTables(NamedTuple):
    """The bias by age of each block, as tables by slot. See `age_bias.py`."""

    bias: Tensor  # (b, h, 2n)
    slopes: Tensor  # (h,) float64 of a linear penalty; (0,) where the bias is learned


class RotaryTables(NamedTuple):
    """What turns queries and keys. See `rotary.py`.

    The turns of a window's tokens are doubled so that any rotation of them is a slice.
    """

    rate: Tensor  # (w / 2,) int64
    cosine: Tensor  # (2n, w)
    sine: Tensor  # (2n, w)


# What a block remembers: a named tuple of batch-first tensors (or of such tuples), of the kinds above or a model's own.
BlockState = tuple[Any, ...] | None


class StreamState(NamedTuple):
    """Everything that a model remembers of its streams."""

    position: Tensor  # (B,) int64: tokens seen so far
    offset: Tensor  # (B,) int64: index in the stream of the first token, for recycling encodings
    blocks: tuple[BlockState, ...]
    # Constants of the weights, a named tuple; not part of a snapshot.
    tables: tuple[Any, ...] | None

    @property
    def batch_size(self) -> int:
        return self.position.shape[0]

    def clone(self) -> StreamState:
        """A copy that shares nothing but the constants."""
        return self.map(Tensor.clone)

    def map(self, function: Callable[[Tensor], Tensor]) -> StreamState:
        """Apply `function` to every batch-first tensor."""
        mapped = map_tensors(function, StreamState(self.position, self.offset, self.blocks, None))
        return mapped._replace(tables=self.tables)

    def select(self, rows: Sequence[int] | Tensor) -> StreamState:
        """A new state of the given rows, in the given order."""
        index = torch.as_tensor(rows, dtype=torch.long, device=self.position.device)
        return self.map(lambda tensor: tensor.index_select(0, index))

    def put_(self, rows: Sequence[int] | Tensor, source: StreamState) -> StreamState:
        """Overwrite the given rows with those of `source`, in place."""
        index = torch.as_tensor(rows, dtype=torch.long, device=self.position.device)
        for mine, theirs in zip(self.tensors(), source.tensors(), strict=True):
            mine.index_copy_(0, index, theirs)
        return self

    def tensors(self) -> list[Tensor]:
        """Every batch-first tensor, in a fixed order."""
        return flat_tensors(StreamState(self.position, self.offset, self.blocks, None))

    @property
    def nbytes(self) -> int:
        """Memory of the batch-first tensors."""
        return sum(tensor.nbytes for tensor in self.tensors())


def flat_tensors(value: object) -> list[Tensor]:
    """Every tensor of nested (named) tuples, in order."""
    if isinstance(value, Tensor):
        return [value]
    return [tensor for item in value for tensor in flat_tensors(item)] if isinstance(value, tuple) else []


def map_tensors(function: Callable[[Tensor], Tensor], value: T) -> T:
    """Apply `function` to every tensor of nested (named) tuples."""
    result: Any = value
    if isinstance(value, Tensor):
        result = function(value)
    elif isinstance(value, tuple):
        items = [map_tensors(function, item) for item in value]
        result = type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return cast(T, result)
