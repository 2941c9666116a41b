"""The speech embedding as a stream of its own: eight new frames in, one row out, for many streams at a time.

Of every layer that sees neighbours in time, the last two values before the new ones are all that it needs of the past:
the state of a stream. Eight frames are what the three poolings in time make one row of, so a stream on that grid
computes every value once, and any number of streams and of rows goes through the layers in one call.

Measured on one Zen 4 core (ms a row: one row of one stream, of 64 streams, and 64 rows of one stream): onnxruntime
0.24, 0.19 and 0.17, PyTorch with channels last 0.43, 0.20 and 0.20. So onnxruntime computes where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pipelines.features.audio.speech.network import BANDS, FRAMES, LAYERS, LEAK, LOWEST, SpeechEmbedding
from pipelines.features.networks.onnx_writer import OnnxWriter, Sizes
from pipelines.onnx_session import OnnxSession
from pipelines.packages import installed

Values: TypeAlias = NDArray[np.float32]
State: TypeAlias = Values  # (streams, numbers): of the layers in `REMEMBERING`, one after the other
# Frames (streams, 8 · rows, 32) and a state to rows (streams, rows, 96) and the state after them.
Steps: TypeAlias = Callable[[Values, State], tuple[Values, State]]

STEP = 8  # frames of a row
PAST = 2  # values that a filter of three frames sees before the newest
# A window of 76 frames is the last of ten steps: after them nothing of the zeros before the first is left.
FIRST_STEPS = 10
LEAD = FIRST_STEPS * STEP - FRAMES  # frames before a window that the first of its steps takes, whatever they are

REMEMBERING = tuple(number for number, layer in enumerate(LAYERS) if layer.kernel[0] > 1)


def _state_shapes() -> Iterator[tuple[int, int, int]]:
    channels, bands = 1, BANDS
    for layer in LAYERS:
        if layer.kernel[0] > 1:
            yield channels, PAST, bands
        channels, bands = layer.outputs, bands // layer.pool[1]


STATE_SHAPES = tuple(_state_shapes())
STATE_SIZES = [prod(shape) for shape in STATE_SHAPES]


def first_state() -> State:
    """Of one stream, before anything was heard."""
    return np.zeros((1, sum(STATE_SIZES)), np.float32)


def joined(states: list[State]) -> State:
    """Several streams as one batch."""
    return states[0] if len(states) == 1 else np.concatenate(states)


def of_stream(state: State, number: int) -> State:
    """One stream of a batch; a copy, so that it does not keep the batch."""
    return state if len(state) == 1 else state[number : number + 1].copy()


def open_steps(network: SpeechEmbedding) -> Steps:
    """With onnxruntime, or with PyTorch where that is not installed."""
    return _with_onnxruntime(network) if installed("onnx", "onnxruntime") else _with_torch(network)


def _with_torch(network: SpeechEmbedding) -> Steps:
    def steps(frames: Values, state: State) -> tuple[Values, State]:
        with torch.inference_mode():
            maps = torch.from_numpy(frames)[:, None]
            parts = torch.split(torch.from_numpy(state), STATE_SIZES, 1)
            past = iter([part.view(-1, *shape) for part, shape in zip(parts, STATE_SHAPES, strict=True)])
            after = []
            for number, layer in enumerate(LAYERS):
                if layer.kernel[0] > 1:
                    maps = torch.cat([next(past), maps], 2)
                    after.append(maps[:, :, -PAST:].flatten(1))
                maps = network.layer(number, maps.contiguous(memory_format=torch.channels_last))
            return np.asarray(maps[..., 0].transpose(1, 2).contiguous().numpy()), torch.cat(after, 1).numpy()

    return steps


def _with_onnxruntime(network: SpeechEmbedding) -> Steps:
    # One thread: the layers of a row are too small to share, and of many sources other threads compute beside it.
    session = OnnxSession("speech", _graph(network), threads=1)

    def steps(frames: Values, state: State) -> tuple[Values, State]:
        maps, after = session.run(session.outputs, {"frames": frames[:, None], "past": state})
        return np.ascontiguousarray(maps[..., 0].transpose(0, 2, 1)), after

    return steps


def _graph(network: SpeechEmbedding) -> bytes:
    """From "frames" and "past" to maps (streams, 96, rows, 1) and the past of the rows that follow."""
    writer = OnnxWriter()
    writer.constant("lowest", np.float32(LOWEST))
    for name, number in {"begin": -PAST, "end": np.iinfo(np.int64).max, "time": 2}.items():
        writer.constant(name, np.array([number]))
    parts = writer.split("past", STATE_SIZES, axis=1)
    past = iter(
        [
            writer.node("Reshape", [part, writer.constant(f"shape_{part}", np.array([-1, *shape]))], f"{part}_maps")
            for part, shape in zip(parts, STATE_SHAPES, strict=True)
        ]
    )
    value, after = "frames", []
    for number, (layer, convolution) in enumerate(zip(LAYERS, network.convolutions, strict=True)):
        assert isinstance(convolution, nn.Conv2d)
        if layer.kernel[0] > 1:
            value = writer.node("Concat", [next(past), value], f"longer{number}", axis=2)
            newest = writer.node("Slice", [value, "begin", "end", "time"], f"newest{number}")
            after.append(writer.node("Flatten", [newest], f"after{number}", axis=1))
        parameters = [
            writer.constant(f"{kind}{number}", parameter.detach().numpy())
            for kind, parameter in convolution.named_parameters()
        ]
        sides = layer.kernel[1] // 2
        shape = {"kernel_shape": list(layer.kernel), "pads": [0, sides, 0, sides]}
        value = writer.node("Conv", [value, *parameters], f"maps{number}", **shape)
        # Of the largest value alone the activation is needed: both rise with their input.
        if layer.pool != (1, 1):
            value = writer.node("MaxPool", [value], f"pooled{number}", kernel_shape=layer.pool, strides=layer.pool)
        if number < len(LAYERS) - 1:
            value = writer.node("LeakyRelu", [value], f"leaky{number}", alpha=LEAK)
            value = writer.node("Clip", [value, "lowest"], f"active{number}")
    inputs: dict[str, Sizes] = {"frames": ["streams", 1, "frames", BANDS], "past": ["streams", sum(STATE_SIZES)]}
    return writer.model(inputs, [value, writer.node("Concat", after, "after", axis=1)])
