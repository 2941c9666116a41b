"""A stream that steps alone: the products of a step, with every view and buffer made once.

A step of a small model takes tens of microseconds, more than half of which go into small tensors and views of rings.
A caller who steps one stream in place gives the same state each time, so what was made of it can be kept. Numbers are
those of `Block.step_single_`, which takes all steps that this does not.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pipelines.model.linear.projection import Projection
from pipelines.model.state import SingleOutputState, StreamState
from pipelines.model.transformer.block import Block


class LoneStream:
    """Belongs to one state of one stream, which it writes in place."""

    def __init__(self, blocks: tuple[Block, ...], state: StreamState) -> None:
        """blocks: all single-output, without lag, class token or biases of age, on a CPU."""
        self.state = state
        self._position = state.position.numpy()
        self._window = blocks[0].config.window
        self._dtype = blocks[0].attention_norm.weight.dtype
        self._blocks = [
            _LoneBlock(block, block_state)
            for block, block_state in zip(blocks, state.blocks, strict=False)  # a model may remember more than blocks
            if isinstance(block_state, SingleOutputState)
        ]

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy or a file of a model is without: what is shared with a state here would be shared no longer."""
        return type(None), ()

    @staticmethod
    def fits(blocks: tuple[Block, ...], state: StreamState) -> bool:
        """Whether the weights are as they were trained, nothing lags or has an age, and numpy knows such numbers."""
        return (
            state.tables is None
            and all(type(block.in_projection) is Projection and not block.lag for block in blocks)
            and all(
                isinstance(ring, SingleOutputState)
                and ring.key.is_cpu
                and ring.key.dtype in (torch.float32, torch.float64)
                for ring in state.blocks[: len(blocks)]
            )
        )

    def takes(self, token: Tensor, state: StreamState) -> bool:
        """Whether the next step is one of this stream's, and its window is full."""
        return (
            state is self.state
            and token.dtype == self._dtype
            and int(self._position[0]) >= self._window - 1
            and not torch.is_grad_enabled()
        )

    def step_(self, token: Tensor) -> Tensor:
        """One token (1, d) in, one row (1, d) out."""
        slot = int(self._position[0]) % self._window
        for block in self._blocks:
            token = block(token, slot)
        self._position[0] += 1
        return token


class _LoneBlock:
    """One block. Its rings are written through numpy, where a small copy costs a third."""

    def __init__(self, block: Block, state: SingleOutputState) -> None:
        self._pre_norm, self._scale, self._activation = block.pre_norm, block.scale, block.activation
        shape = (block.config.width,)
        norm = block.attention_norm
        self._attention_norm = (shape, norm.weight, norm.bias, norm.eps)
        norm = block.feed_forward_norm
        self._feed_forward_norm = (shape, norm.weight, norm.bias, norm.eps)
        self._in, self._out = _weights(block.in_projection), _weights(block.out_projection)
        self._expand, self._contract = _weights(block.expand), _weights(block.contract)
        # Tensors of inference mode could be written in inference mode only.
        with torch.inference_mode(False), torch.no_grad():
            heads, slots, width = state.key.shape[1:]
            self._values = state.value.select(0, 0)  # (h, n, w)
            self._keys = state.key.select(0, 0).transpose(1, 2)  # (h, w, n)
            self._projected = state.key.new_empty(3 * heads * width)
            projected = self._projected.view(3, heads, width)
            self._query = projected[0].unsqueeze(1)  # (h, 1, w)
            self._scores = state.key.new_empty(heads, 1, slots)
            self._mixed = state.key.new_empty(heads, 1, width)
            self._attended = self._mixed.view(-1)
            self._hidden = state.key.new_empty(block.config.feed_forward)
            self._sum = state.key.new_empty(shape)
            self._sum_row = self._sum.unsqueeze(0)
            self._new_key, self._new_value = projected[1].numpy(), projected[2].numpy()
            self._key_ring, self._value_ring = state.key[0].numpy(), self._values.numpy()

    def __call__(self, token: Tensor, slot: int) -> Tensor:
        """One token (1, d) in, its row (1, d) out. slot: of the rings, where its key and value go."""
        row = token.select(0, 0)
        bias, weight = self._in
        entering = torch.layer_norm(row, *self._attention_norm) if self._pre_norm else row
        torch.addmv(bias, weight, entering, out=self._projected)
        np.copyto(self._key_ring[:, slot], self._new_key)
        np.copyto(self._value_ring[:, slot], self._new_value)
        scores = self._scores
        torch.baddbmm(scores, self._query, self._keys, beta=0, alpha=self._scale, out=scores)
        torch.bmm(torch.softmax(scores, -1), self._values, out=self._mixed)
        bias, weight = self._out
        total = torch.add(row, bias, out=self._sum).addmv_(weight, self._attended)
        if self._pre_norm:
            row, entering = total, torch.layer_norm(total, *self._feed_forward_norm)
        else:
            row = entering = torch.layer_norm(total, *self._attention_norm)
        bias, weight = self._expand
        hidden = self._activation(torch.addmv(bias, weight, entering, out=self._hidden))
        bias, weight = self._contract
        torch.add(row, bias, out=self._sum).addmv_(weight, hidden)
        return self._sum_row.clone() if self._pre_norm else torch.layer_norm(self._sum_row, *self._feed_forward_norm)


def _weights(layer: Projection) -> tuple[Tensor, Tensor]:
    """Bias (zeros where there is none) and weight."""
    return layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias, layer.weight
