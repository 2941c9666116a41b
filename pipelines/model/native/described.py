"""Blocks and the state of their streams as the structures of kernels.c, with the tensors that these point into."""

from __future__ import annotations

from ctypes import c_void_p

import torch
from torch import Tensor

from pipelines.model.attention.retroactive import TOLERANCE
from pipelines.model.linear.float16 import Float16Projection
from pipelines.model.linear.int8 import Int8Projection
from pipelines.model.linear.int8_fbgemm import FbgemmInt8Projection
from pipelines.model.linear.projection import Projection
from pipelines.model.native import library
from pipelines.model.state import AgeTables, RetroactiveState, SingleOutputState, StreamState
from pipelines.model.transformer.block import NORM_EPSILON, Block

KINDS = {torch.float32: 0, torch.float16: 1, torch.int8: 2}  # of weights
LAYERS = {"projection": "in_projection", "output": "out_projection", "expand": "expand", "contract": "contract"}
KNOWN = (Projection, Float16Projection, Int8Projection, FbgemmInt8Projection)


def is_known(block: Block) -> bool:
    """Whether the kernels have the layers of a block, and read its weights as they lie there."""
    layers = [getattr(block, name) for name in LAYERS.values()]
    if not all(type(layer) in KNOWN for layer in layers):
        return False
    norms = (block.attention_norm, block.feed_forward_norm)
    vectors = (*(layer.bias for layer in layers if layer.bias is not None), *(norm.weight for norm in norms))
    weights = [_by_output(layer) for layer in layers]
    return (
        all(tensor.dtype == torch.float32 for tensor in (*vectors, *(norm.bias for norm in norms)))
        and all(weight.dtype in KINDS for weight in weights)
        and all(tensor.is_contiguous() and tensor.is_cpu for tensor in (*vectors, *weights))
    )


def is_as_made(state: StreamState, blocks: tuple[Block, ...]) -> bool:
    """Whether the rings of a state have the sizes and types of those that these blocks make, without gaps."""
    pairs = [(state.position, torch.empty(1, dtype=torch.long))]
    for block, rings in zip(blocks, state.blocks, strict=False):  # a model may remember more than blocks
        if isinstance(rings, RetroactiveState):
            pairs += zip(rings, block.retroactive_state(1, None), strict=True)
        elif isinstance(rings, SingleOutputState):
            pairs += zip(rings, block.single_output_state(1, None), strict=True)
    config = blocks[0].config
    aged = state.tables.bias.shape if isinstance(state.tables, AgeTables) else None
    return aged in (None, (config.blocks, config.heads, 2 * config.window)) and all(
        ring.shape == (state.batch_size, *made.shape[1:])
        and ring.dtype == made.dtype
        and ring.is_contiguous()
        and ring.is_cpu
        for ring, made in pairs
    )


def _by_output(layer: Projection) -> Tensor:
    """Weights (out, in)."""
    return layer.weight.t() if isinstance(layer, Int8Projection) else layer.weight


class Described:
    """Structures, and what they point to: that stays where it is as long as this lives."""

    def __init__(self) -> None:
        self._held: list[Tensor] = []

    def linear(self, layer: Projection) -> library.Linear:
        """A layer of any precision."""
        weight = _by_output(layer)
        about = library.Linear(
            weight=self._address(weight),
            bias=self._address(layer.bias),
            outputs=layer.out_features,
            inputs=layer.in_features,
            kind=KINDS[weight.dtype],
        )
        if isinstance(layer, Int8Projection):
            about.parts, about.largest = 2 if layer.fine else 1, layer.largest
            about.scale = self._address(layer.scale)
            about.sums = self._address(weight.sum(dim=1, dtype=torch.int32) * 128)
        return about

    def block(
        self, block: Block, state: SingleOutputState | None = None, age_bias: Tensor | None = None
    ) -> library.Block:
        """A block. state: its rings, where it has any; age_bias: (h, 2n)."""
        width = block.config.width
        about = library.Block(
            **{ours: self.linear(getattr(block, name)) for ours, name in LAYERS.items()},
            attention_gain=self._address(block.attention_norm.weight),
            attention_shift=self._address(block.attention_norm.bias),
            feed_forward_gain=self._address(block.feed_forward_norm.weight),
            feed_forward_shift=self._address(block.feed_forward_norm.bias),
            epsilon=NORM_EPSILON,
            scale=block.scale,
            heads=block.heads,
            slots=block.config.window,
            width=block.head_width,
            lag=block.lag,
            pre_norm=block.pre_norm,
            gelu=block.config.activation == "gelu",
        )
        if state is not None:
            about.key, about.value = self._address(state.key), self._address(state.value)
            about.recent = self._address(state.recent) if block.lag else None
            about.age_bias = self._address(age_bias)
        hidden = block.config.feed_forward
        bytes_ = 2 * (max(width, hidden) + 63)
        numbers = 6 * width + block.config.window + hidden + bytes_ // 4 + 1
        about.scratch = self._address(torch.empty(numbers, dtype=torch.float32))
        return about

    def rows(self, block: Block, state: RetroactiveState) -> library.Rows:
        """The retroactive rows of a block."""
        slots, width = block.config.window, block.head_width
        rings = {name: self._address(getattr(state, name)) for name in RetroactiveState._fields[1:]}
        return library.Rows(
            **rings,
            scratch=self._address(torch.empty(7 * slots + 2 * width + 2, dtype=torch.float64)),
            scale=block.scale,
            tolerance=TOLERANCE[torch.float32],
            heads=block.heads,
            slots=slots,
            width=width,
        )

    def _address(self, tensor: Tensor | None) -> c_void_p | None:
        if tensor is None:
            return None
        assert tensor.is_contiguous() and tensor.is_cpu
        self._held.append(tensor.detach())  # a parameter itself may be moved elsewhere
        return c_void_p(tensor.data_ptr())
