"""The speech embedding on windows of all phases: the layers before the second pooling in time are shared, the rest not.

Windows that begin any number of frames apart share what lies before the first pooling, and those of one parity what
lies before the second. Both are computed over a whole span of frames; behind them windows are short, and go through the
last layers side by side. For windows every 25 frames this takes two thirds of the time.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pipelines.features.audio.speech.network import LAYERS, SpeechEmbedding

FIRST_POOL, SECOND_POOL = (number for number, layer in enumerate(LAYERS[:-2]) if layer.pool[0] > 1)
SHORT = 14  # values of a window behind the second pooling
BATCH = 32  # windows that take the last layers together; the maps of more leave the cache


def rows_of_windows(network: SpeechEmbedding, span: Tensor, places: list[int]) -> Tensor:
    """(frames, 32) and the first frames of windows in it, to (windows, 96)."""
    maps = _until_pool(network, span[None, None], 0, FIRST_POOL)
    phases: dict[int, Tensor] = {}  # (1, channels, time, bands) in steps of two frames, by the parity of their first
    windows = []
    for place in places:
        parity = place % 2
        if parity not in phases:
            phases[parity] = _until_pool(network, maps[:, :, parity::2], FIRST_POOL + 1, SECOND_POOL)
        first = place // 2
        windows.append(phases[parity][:, :, first : first + 2 * SHORT : 2])
    rows = []
    for part in torch.split(torch.cat(windows), BATCH):
        for number in range(SECOND_POOL + 1, len(LAYERS)):
            part = network.layer(number, part)
        rows.append(part[:, :, 0, 0])
    return torch.cat(rows)


def _until_pool(network: SpeechEmbedding, maps: Tensor, first: int, last: int) -> Tensor:
    """Layers `first` to `last`, pooled over every pair of neighbours in time: those of both parities in turn."""
    for number in range(first, last):
        maps = network.layer(number, maps)
    maps = network.layer(last, maps, pooled=False)
    return nn.functional.max_pool2d(maps, LAYERS[last].pool, stride=(1, LAYERS[last].pool[1]))
