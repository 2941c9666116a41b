"""Streams that step in C: single-output blocks as a whole; of two or more exact blocks all but the products.

Numbers are those of `Block.step_single_` and `Block.step_retroactive_`, to rounding, with weights of any precision.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref
from typing import cast

import torch
from torch import Tensor
from torch.nn import LayerNorm
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from pipelines.model.linear.projection import Projection
from pipelines.model.native.described import LAYERS, Described, is_as_made, is_known
from pipelines.model.native.library import Kernels
from pipelines.model.state import AgeTables, RetroactiveState, SingleOutputState, StreamState
from pipelines.model.transformer.block import Block

# Weights of a float32 block up to which one thread is as fast as several, which PyTorch takes.
SMALL_BLOCK = 2**20

Step = Callable[[Tensor, Tensor], Tensor]  # tokens (k, d) of these streams (k,) to the block's rows (k, d)


class NativeStream:
    """Belongs to one state, which it writes in place."""

    def __init__(self, kernels: Kernels, blocks: tuple[Block, ...], state: StreamState) -> None:
        """blocks: such that `fits`."""
        self.state = state
        self._position = state.position.numpy()
        # Tensors of inference mode could be written in inference mode only.
        with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
            self._first = torch.zeros(1, dtype=torch.long)
            self._blocks: list[Step] = []
            self._from = 0  # tokens that a stream must have seen
            if isinstance(state.blocks[0], RetroactiveState):
                self._from = blocks[0].config.window - 1
                self._blocks.append(_ExactStack(kernels, blocks, state))
            else:
                for index, block in enumerate(blocks):
                    self._blocks.append(_SingleBlock(kernels, block, state, index))

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy or a file of a model is without: what is shared with a state here would be shared no longer."""
        return type(None), ()

    @staticmethod
    def fits(blocks: tuple[Block, ...], state: StreamState) -> bool:
        """Whether the kernels have what these blocks do, and are quicker than PyTorch.

        blocks: without a class token and static or rotary positions.
        """
        if not state.position.is_cpu or blocks[0].attention_norm.weight.dtype != torch.float32:
            return False
        if isinstance(state.blocks[0], RetroactiveState):
            lags = any(block.lag for block in blocks)
            fits = state.batch_size == 1 and len(blocks) > 1 and state.tables is None and not lags
        else:
            weights = [getattr(blocks[0], name) for name in LAYERS.values()]
            plain = all(type(layer) is Projection for layer in weights)
            shared = (
                plain and sum(layer.weight.numel() for layer in weights) > SMALL_BLOCK and torch.get_num_threads() > 1
            )
            fits = not shared and all(isinstance(ring, SingleOutputState) for ring in state.blocks[: len(blocks)])
        return fits and all(map(is_known, blocks)) and is_as_made(state, blocks)

    def takes(self, token: Tensor, state: StreamState) -> bool:
        """Whether the next step of these streams can be taken here, and nobody counts operators."""
        return (
            state is self.state
            and token.dtype == torch.float32
            and (not self._from or int(self._position[0]) >= self._from)
            and not torch.is_grad_enabled()
            and not is_in_torch_dispatch_mode()
        )

    def step_(self, token: Tensor) -> Tensor:
        """One token (1, d) of a lone stream in, one row (1, d) out."""
        row = token.contiguous()
        for block in self._blocks:
            row = block(row, self._first)
        self._position[0] += 1
        return row

    def step_some_(self, tokens: Tensor, streams: Tensor) -> Tensor:
        """Tokens (k, d) of some streams (k,) of single-output blocks in, rows (k, d) out. No stream comes twice."""
        rows = tokens.contiguous()
        for block in self._blocks:
            rows = block(rows, streams)
        self._position[streams.numpy()] += 1
        return rows


class _SingleBlock:
    """A block that keeps keys and values."""

    def __init__(self, kernels: Kernels, block: Block, state: StreamState, index: int) -> None:
        age_bias = state.tables.bias[index].float() if isinstance(state.tables, AgeTables) else None
        self._described = Described()
        self._block = byref(self._described.block(block, cast(SingleOutputState, state.blocks[index]), age_bias))
        self._step = kernels.step
        self._positions = state.position.data_ptr()

    def __call__(self, tokens: Tensor, streams: Tensor) -> Tensor:
        out = torch.empty_like(tokens)
        places = (streams.data_ptr(), self._positions, len(streams))
        self._step(self._block, tokens.data_ptr(), *places, out.data_ptr())
        return out


class _ExactStack:
    """A retroactive block, regular ones, and one whose newest row is wanted: products of all rows are PyTorch's."""

    def __init__(self, kernels: Kernels, blocks: tuple[Block, ...], state: StreamState) -> None:
        rows = cast(RetroactiveState, state.blocks[0])
        self._kernels, self._blocks = kernels, blocks
        self._position = state.position.numpy()
        self._tokens = rows.token[0]  # (n, d)
        self._described = Described()
        self._rows = byref(self._described.rows(blocks[0], rows))
        self._last = byref(self._described.block(blocks[-1]))
        self._attended = torch.empty_like(self._tokens)
        self._finish = _Finish(kernels, blocks[0])

    def __call__(self, token: Tensor, streams: Tensor) -> Tensor:
        first, last = self._blocks[0], self._blocks[-1]
        slots, width = self._tokens.shape
        position = int(self._position[0])
        slot = position % slots
        projected = first.in_projection.project(first.attention_input(token))
        self._tokens[slot].copy_(token[0])
        leaves = position >= slots
        self._kernels.update_rows(self._rows, projected.data_ptr(), slot, leaves, self._attended.data_ptr())
        rows = self._finish(self._tokens, self._attended)
        for block in self._blocks[1:-1]:
            rows = block(rows.unsqueeze(0))[0].contiguous()
        both = last.in_projection.project_part(last.attention_input(rows), width)
        out = torch.empty_like(token)
        self._kernels.newest(self._last, rows.data_ptr(), both.data_ptr(), slot, out.data_ptr())
        return out


class _Finish:
    """`Block.finish` on all rows: biases, sums, norms and activation in one pass between two products."""

    def __init__(self, kernels: Kernels, block: Block) -> None:
        self._kernels, self._block = kernels, block
        config = block.config
        self._size = (config.window, config.width)
        self._mixed, self._total, self._normed = (torch.empty(self._size, dtype=torch.float32) for _ in range(3))
        self._hidden = torch.empty(config.window, config.feed_forward, dtype=torch.float32)
        self._gelu = config.activation == "gelu"

    def __call__(self, rows: Tensor, attended: Tensor) -> Tensor:
        """Rows (n, d) that entered the block, and what they attended to (n, d), to rows (n, d)."""
        block = self._block
        mixed = _product(block.out_projection, attended, self._mixed)
        # The norm after attention, or with pre-norm the one before the feed-forward part: the next in either case.
        self._norm(
            block.feed_forward_norm if block.pre_norm else block.attention_norm, rows, mixed, block.out_projection
        )
        rows = self._total if block.pre_norm else self._normed
        hidden = _product(block.expand, self._normed, self._hidden)
        size = (*self._hidden.shape, self._gelu)
        self._kernels.activate_rows(hidden.data_ptr(), _pointer(block.expand.bias), *size)
        mixed = _product(block.contract, hidden, self._mixed)
        if block.pre_norm:
            return mixed.add_(rows).add_(block.contract.bias)
        self._norm(block.feed_forward_norm, rows, mixed, block.contract)
        return self._normed

    def _norm(self, norm: LayerNorm, rows: Tensor, mixed: Tensor, layer: Projection) -> None:
        """`_total` becomes the sum of rows, what was mixed and a layer's bias, and `_normed` its norm."""
        self._kernels.norm_rows(
            *(rows.data_ptr(), mixed.data_ptr(), _pointer(layer.bias)),
            *(norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps),
            *(*self._size, self._total.data_ptr(), self._normed.data_ptr()),
        )


def _product(layer: Projection, rows: Tensor, out: Tensor) -> Tensor:
    """Rows (n, in) through a layer without its bias (n, out): into `out` where weights are as they were trained."""
    if type(layer) is Projection:
        return torch.mm(rows, layer.weight.t(), out=out)
    return layer.project_part(rows, 0, biased=False)


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
