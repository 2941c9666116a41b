"""How one stream steps alone: in C where the library is here, else with PyTorch's products and ready-made views."""

from __future__ import annotations

from pipelines.model.native.library import kernels
from pipelines.model.state import StreamState
from pipelines.model.transformer.block import Block
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.lone_stream import LoneStream
from pipelines.model.transformer.native_stream import NativeStream


def may_step_alone(config: ModelConfig) -> bool:
    """Whether a model's positions, tokens and decoder allow it at all."""
    return (
        config.positional in ("none", "recycling", "relative", "alibi")
        and config.class_token_block is None
        and not config.decoder_blocks
    )


def stream_alone(blocks: tuple[Block, ...], state: StreamState) -> LoneStream | NativeStream | None:
    """What takes the next steps of a state, of a stream or some of many; None: nothing quicker than the blocks."""
    native = kernels()
    if native is not None and NativeStream.fits(blocks, state):
        return NativeStream(native, blocks, state)
    return LoneStream(blocks, state) if state.batch_size == 1 and LoneStream.fits(blocks, state) else None
