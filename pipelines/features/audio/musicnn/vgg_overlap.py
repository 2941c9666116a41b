"""The VGG-style network on windows that overlap: what windows share of its first four convolutions is computed once.

Windows begin at even frames, so the first pooling (four frames, every second one) falls on the same frames in all of
them; time is counted in steps of two frames. Every later pooling halves the grid, and windows share what lies between
when they begin at the same phase of it: a window in two shares the third convolution, one in four the fourth. (Rows
every 0.25 s keep their phase for four rows or so.) What differs between a window and the stream around it are the
edges, where the network sees zeros. They stay narrow: of each convolution the two first and the two last values belong
to the window, of what the next one sees a single value at either end.

Everything is computed in blocks that begin at multiples of their length in the stream. All blocks of a convolution have
the same shape, so a row's last bit does not depend on which rows were computed with it.
"""

from __future__ import annotations

import numpy as np
import torch

from pipelines.features.audio.mel import Frames
from pipelines.features.audio.musicnn.vgg import FRAMES, LAYERS, MusicnnVgg
from pipelines.features.audio.musicnn.vgg_layers import Values, open_layers
from pipelines.features.extractor import Rows

GRID = 2  # frames per step
SHARED = 3  # the last convolution whose values are shared
STRIDES = (1, 1, 2, 4)  # steps from one value of a convolution to the next; of the first, after its pooling
LENGTHS = (92, 92, 46, 23)  # their values in a window
BLOCKS = (8, 8, 4, 4)  # their values in a block
EDGE = 2  # values at either end of a window that are its own
# A step of the first convolution sees one frame before its four, and one after them.
STEP_FRAMES = 6
# With less than this in common, windows are cheaper one by one.
LEAST_OVERLAP = FRAMES // 4  # frames

# Convolution, phase and number of a block to its values (1, channels, time, bands); only the first has pooled time.
Blocks = dict[tuple[int, int, int], Values]


class LiveVgg:
    """The network as a stream of windows uses it."""

    def __init__(self, network: MusicnnVgg) -> None:
        self._input_norm, self.layers = network.input_norm, open_layers(network)

    def pooled_windows(self, span: Frames, starts: list[int], known: Blocks) -> Rows:
        """Frames (frames, 96) and the first frame of each window to (windows, 256), as `MusicnnVgg.pooled` has it.

        `starts` are even and count from the start of the stream; `span` begins with the first window. `known` is kept
        for the next call with later windows of the same stream.
        """
        with torch.inference_mode():
            frames: Values = self._input_norm(torch.from_numpy(span)[None, None]).numpy()
        rows = []
        begin = 0
        for end in range(1, len(starts) + 1):
            if end == len(starts) or starts[end] - starts[end - 1] > FRAMES - LEAST_OVERLAP:
                part = frames[:, :, starts[begin] - starts[0] : starts[end - 1] - starts[0] + FRAMES]
                stretch = _Stretch(self, part, starts[begin], known)
                rows += [stretch.window(start) for start in starts[begin:end]]
                begin = end
        return np.concatenate(rows)


class _Stretch:
    """Frames without a gap, and the values of the convolutions on them, whatever windows there are."""

    def __init__(self, network: LiveVgg, frames: Values, first: int, known: Blocks) -> None:
        """frames: (1, 1, frames, 96), of which the first is number `first` of the stream."""
        self._layers, self._frames, self._first, self._known = network.layers, frames, first, known
        for layer, phase, block in list(known):
            if (block + 1) * BLOCKS[layer] * STRIDES[layer] + phase <= first // GRID:
                del known[layer, phase, block]

    def window(self, start: int) -> Rows:
        """(1, 256): what is pooled last of the window whose first frame is number `start` of the stream."""
        step = start // GRID
        head = self._frames[:, :, start - self._first :][:, :, : STEP_FRAMES - 1]
        first = self._layers[0](_padded(head, 1, 0))
        last = self._inputs(1, step, LENGTHS[1] - 1, 1)
        for layer in range(1, SHARED + 1):
            zero = np.zeros_like(first)
            begin, end = self._inputs(layer, step, 1, EDGE), self._inputs(layer, step, LENGTHS[layer] - EDGE - 1, EDGE)
            both = [np.concatenate([zero, first, begin], 2), np.concatenate([end, last, zero], 2)]
            edges = self._layers[layer](np.concatenate(both))
            first, last = _halved(edges[:1]), _halved(edges[1:])
        inside = self._values(SHARED, *_place(SHARED, step, EDGE), LENGTHS[SHARED] - 2 * EDGE)
        maps = _halved(np.concatenate([edges[:1], inside, edges[1:]], 2))
        for layer in range(SHARED + 1, LAYERS):
            maps = self._layers[layer](maps)
        return np.ascontiguousarray(maps.transpose(0, 2, 3, 1)).reshape(1, -1)

    def _inputs(self, layer: int, step: int, first: int, count: int) -> Values:
        """What a convolution sees from its value `first` on, of the window that begins at `step`."""
        return self._pooled(layer, *_place(layer, step, first), count)

    def _pooled(self, layer: int, phase: int, first: int, count: int) -> Values:
        """What a convolution sees from its value `first` of the stream on: the one before it, pooled."""
        if layer == 1:
            return self._values(0, 0, first, count)
        before = _place(layer - 1, first * STRIDES[layer] + phase, 0)
        return _halved(self._values(layer - 1, *before, 2 * count))

    def _values(self, layer: int, phase: int, first: int, count: int) -> Values:
        """(1, channels, count, bands): values of a convolution from number `first` of the stream on."""
        size = BLOCKS[layer]
        blocks = [self._block(layer, phase, block) for block in range(first // size, (first + count - 1) // size + 1)]
        begin = first % size
        return (blocks[0] if len(blocks) == 1 else np.concatenate(blocks, 2))[:, :, begin : begin + count]

    def _block(self, layer: int, phase: int, block: int) -> Values:
        if (values := self._known.get((layer, phase, block))) is not None:
            return values
        first, size = block * BLOCKS[layer], BLOCKS[layer]
        values = self._layers[layer](
            self._around(first) if layer == 0 else self._pooled(layer, phase, first - 1, size + 2)
        )
        if self._is_whole(layer, phase, first + size - 1):  # later windows find all that they need in it
            self._known[layer, phase, block] = values
        return values

    def _around(self, first: int) -> Values:
        """(1, 1, frames, 96): the frames that a block of the first convolution sees.

        Where it reaches past the stretch there are zeros. No window uses what comes of them.
        """
        begin, count = GRID * first - 1 - self._first, GRID * (BLOCKS[0] - 1) + STEP_FRAMES
        part = self._frames[:, :, max(begin, 0) : max(begin + count, 0)]
        before = min(max(-begin, 0), count)
        return _padded(part, before, count - before - part.shape[2])

    def _is_whole(self, layer: int, phase: int, last: int) -> bool:
        """Whether value `last` of a convolution sees nothing past the end of the stretch."""
        step = last * STRIDES[layer] + phase
        for seen in range(layer, 0, -1):  # the value after it, and the second of the two that this is pooled from
            step += STRIDES[seen] + (STRIDES[seen - 1] if seen > 1 else 0)
        return bool(GRID * step - 1 + STEP_FRAMES <= self._first + self._frames.shape[2])


def _place(layer: int, step: int, first: int) -> tuple[int, int]:
    """The phase, and the number in the stream, of value `first` of a window that begins at `step`."""
    number, phase = divmod(step, STRIDES[layer])
    return phase, number + first


def _halved(values: Values) -> Values:
    """The larger of two values after each other in time: (rows, channels, time, bands) to half as many."""
    even = values.shape[2] // 2 * 2
    return np.maximum(values[:, :, 0:even:2], values[:, :, 1:even:2])


def _padded(frames: Values, before: int, after: int) -> Values:
    return np.pad(frames, ((0, 0), (0, 0), (before, after), (0, 0)))
