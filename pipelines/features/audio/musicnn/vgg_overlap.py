"""The musicnn network on windows that overlap: its two first and most expensive convolutions are computed once.

Windows begin at even frames, so the first pooling (four frames, every second one) falls on the same frames in all of
them. Time after it is counted in steps of two frames. What differs between a window and the stream around it are the
edges, where the network sees zeros: the two first and the last of the window's 92 steps of the second convolution.
These are computed for each window, everything between is shared.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pipelines.features.audio.musicnn.vgg import FRAMES, LAYERS, MusicnnVgg

GRID = 2  # frames per step
STEPS = 92  # of a window
# The shared part is computed in blocks of this many steps, which begin at multiples of it in the stream. All have the
# same shape, so a row's last bit does not depend on which rows were computed with it.
BLOCK_STEPS = 8
# A step of the second convolution sees one step before and after it, of the first one frame before and four after.
BLOCK_FRAMES = GRID * (BLOCK_STEPS + 2) + 4
FRAMES_BEFORE = GRID + 1
# With less than this in common, windows are cheaper one by one.
LEAST_OVERLAP = FRAMES // 4  # frames


# Number of a block to its steps of the first and of the second convolution, each (1, channels, 8, 48).
Blocks = dict[int, tuple[Tensor, Tensor]]


def pooled_windows(network: MusicnnVgg, span: Tensor, starts: list[int], known: Blocks) -> Tensor:
    """Frames (frames, 96) and the first frame of each window to (windows, 256), as `MusicnnVgg.pooled` has it.

    `starts` are even and count from the start of the stream; `span` begins with the first window. `known` is kept for
    the next call with later windows of the same stream.
    """
    rows = []
    begin = 0
    for end in range(1, len(starts) + 1):
        if end == len(starts) or starts[end] - starts[end - 1] > FRAMES - LEAST_OVERLAP:
            part = span[starts[begin] - starts[0] : starts[end - 1] - starts[0] + FRAMES]
            rows += _overlapping(network, part, starts[begin:end], known)
            begin = end
    return torch.cat(rows)


def _overlapping(network: MusicnnVgg, span: Tensor, starts: list[int], known: Blocks) -> list[Tensor]:
    first_block = (starts[0] // GRID + 1) // BLOCK_STEPS
    last_block = (starts[-1] // GRID + STEPS - 1) // BLOCK_STEPS
    for block in [block for block in known if block < first_block]:
        del known[block]
    normalised = network.input_norm(span[None, None])
    blocks = [_block(network, normalised, starts[0], block, known) for block in range(first_block, last_block + 1)]
    shared, between = (torch.cat(parts, 2) for parts in zip(*blocks, strict=True))
    rows = []
    for start in starts:
        head = normalised[:, :, start - starts[0] :][:, :, :5]
        step = start // GRID - first_block * BLOCK_STEPS
        maps = network.pool(1, _window(network, head, shared, between, step))
        for layer in range(2, LAYERS):
            maps = network.pool(layer, network.activate(layer, network.convolutions[layer](maps)))
        rows.append(maps.permute(0, 2, 3, 1).flatten(1))
    return rows


def _block(network: MusicnnVgg, normalised: Tensor, first: int, block: int, known: Blocks) -> tuple[Tensor, Tensor]:
    """Steps of both convolutions that all windows share; `normalised` (1, 1, frames, 96) begins at frame `first`."""
    if block in known:
        return known[block]
    begin = GRID * BLOCK_STEPS * block - FRAMES_BEFORE - first
    end, frames = begin + BLOCK_FRAMES, normalised.shape[2]
    # Where the block reaches past the span it gets zeros. No window uses what comes of them.
    part = normalised[:, :, max(begin, 0) : max(end, 0)]
    part = nn.functional.pad(part, (0, 0, max(-begin, 0), max(end - frames, 0)))
    pooled = network.pool(0, network.activate(0, _convolve(network, 0, part)))
    steps = pooled[:, :, 1:-1], network.activate(1, _convolve(network, 1, pooled))
    if end <= frames:  # later windows, which begin later, find all that they need in it
        known[block] = steps
    return steps


def _window(network: MusicnnVgg, head: Tensor, shared: Tensor, between: Tensor, start: int) -> Tensor:
    """(1, channels, 92, 48): what the second convolution gives for the window that begins at step `start`.

    `head` holds the window's first five frames: its first step sees four and the one after them.
    """
    own = network.pool(0, network.activate(0, _convolve(network, 0, nn.functional.pad(head, (0, 0, 1, 0)))))
    zero = torch.zeros_like(own)
    first = torch.cat([zero, own, shared[:, :, start + 1 : start + 3]], 2)
    last = torch.cat([shared[:, :, start + STEPS - 2 : start + STEPS], zero], 2)
    edges = [network.activate(1, _convolve(network, 1, part)) for part in (first, last)]
    return torch.cat([edges[0], between[:, :, start + 2 : start + STEPS - 1], edges[1]], 2)


def _convolve(network: MusicnnVgg, layer: int, maps: Tensor) -> Tensor:
    """Without padding in time: (rows, inputs, time, bands) to (rows, outputs, time - 2, …)."""
    convolution = network.convolutions[layer]
    assert isinstance(convolution, nn.Conv2d)
    return nn.functional.conv2d(maps, convolution.weight, convolution.bias, convolution.stride, padding=(0, 1))
