"""The first five convolutions of SoundNet's eight: from samples to 256 channels, without padding.

A value of the last layer sees FRAME_LENGTH samples, and the next one begins FRAME_HOP later. Since nothing is padded,
it depends on these samples alone, and more samples give the same numbers for every frame that fits into them. (The
authors' own program pads every layer with zeros, which changes the frames at either end of what it is given.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import Tensor, nn

RATE = 22_050  # Hz
LOUDEST = 256.0  # what the network takes for a sample at full scale
STRIDE = 2  # of every convolution


@dataclass(frozen=True)
class Layer:
    """A convolution over time, and how many of its values are pooled into one."""

    outputs: int
    kernel: int
    pool: int = 1


LAYERS = (Layer(16, 64, 8), Layer(32, 32, 8), Layer(64, 16), Layer(128, 8), Layer(256, 4))
WIDTH = LAYERS[-1].outputs
FRAME_HOP = prod(STRIDE * layer.pool for layer in LAYERS)  # 2,048 samples


def _frame_length() -> int:
    """Samples that a frame sees: 11,294."""
    length = 1
    for layer in reversed(LAYERS):
        length = (length * layer.pool - 1) * STRIDE + layer.kernel
    return length


FRAME_LENGTH = _frame_length()


class SoundNet(nn.Module):
    """The layers of `LAYERS`, whose batch norms are part of the convolutions; each is followed by ReLU."""

    def __init__(self) -> None:
        super().__init__()
        convolutions = []
        inputs = 1
        for layer in LAYERS:
            convolutions.append(nn.Conv1d(inputs, layer.outputs, layer.kernel, STRIDE))
            inputs = layer.outputs
        self.convolutions = nn.ModuleList(convolutions)

    def forward(self, samples: Tensor) -> Tensor:
        """(batch, samples) in [-1, 1] to (batch, frames, 256): every frame that fits."""
        values = samples[:, None] * LOUDEST
        for layer, convolution in zip(LAYERS, self.convolutions, strict=True):
            values = convolution(values)
            if layer.pool > 1:
                values = nn.functional.max_pool1d(values, layer.pool)
            values = values.relu()  # after the pooling, where it is the same for an eighth of the work
        return values.transpose(1, 2)
