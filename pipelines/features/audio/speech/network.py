"""The speech embedding network: 20 convolutions from log-mel frames to 96 numbers, without padding in time.

A window of 76 frames gives one row. Since nothing is padded in time, more frames give a row for every eighth of them
that begins such a window: the same numbers as window by window.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

FRAMES = 76  # frames that one row sees, 10 ms apart
BANDS = 32
WIDTH = 96
LEAK = 0.2  # slope of the activation below zero
LOWEST = -0.4  # and the least that it gives


@dataclass(frozen=True)
class Layer:
    """A convolution (time × bands) and the pooling behind it; bands are padded so that they stay as many."""

    outputs: int
    kernel: tuple[int, int]
    pool: tuple[int, int] = (1, 1)


LAYERS = (
    Layer(24, (3, 3)),
    Layer(24, (1, 3)),
    Layer(24, (3, 1), (2, 2)),
    Layer(48, (1, 3)),
    Layer(48, (3, 1)),
    Layer(48, (1, 3)),
    Layer(48, (3, 1), (1, 2)),
    Layer(72, (1, 3)),
    Layer(72, (3, 1)),
    Layer(72, (1, 3)),
    Layer(72, (3, 1), (2, 2)),
    Layer(96, (1, 3)),
    Layer(96, (3, 1)),
    Layer(96, (1, 3)),
    Layer(96, (3, 1), (1, 2)),
    Layer(96, (1, 3)),
    Layer(96, (3, 1)),
    Layer(96, (1, 3)),
    Layer(96, (3, 1), (2, 2)),
    Layer(WIDTH, (3, 1)),
)


class SpeechEmbedding(nn.Module):
    """The layers of `LAYERS`; all but the last, which is linear and has no bias, are followed by the activation."""

    def __init__(self) -> None:
        super().__init__()
        convolutions = []
        inputs = 1
        for number, layer in enumerate(LAYERS):
            padding = (0, layer.kernel[1] // 2)
            bias = number < len(LAYERS) - 1
            convolutions.append(nn.Conv2d(inputs, layer.outputs, layer.kernel, padding=padding, bias=bias))
            inputs = layer.outputs
        self.convolutions = nn.ModuleList(convolutions)
        self._stack = tuple(convolutions)  # looked up 20 times for a row, which takes as long as a small layer

    def layer(self, number: int, maps: Tensor, pooled: bool = True) -> Tensor:
        """(rows, inputs, time, bands) through layer `number` with its activation and, unless told, its pooling."""
        convolution = self._stack[number]
        maps = nn.functional.conv2d(maps, convolution.weight, convolution.bias, padding=convolution.padding)
        if number < len(LAYERS) - 1:
            maps = nn.functional.leaky_relu_(maps, LEAK).clamp_(min=LOWEST)
        pool = LAYERS[number].pool
        return maps if pool == (1, 1) or not pooled else nn.functional.max_pool2d(maps, pool)

    def forward(self, frames: Tensor) -> Tensor:
        """(rows, frames, 32) to (rows, 1 + (frames - 76) // 8, 96)."""
        maps = frames[:, None]
        for number in range(len(LAYERS)):
            maps = self.layer(number, maps)
        return maps[..., 0].transpose(1, 2)
