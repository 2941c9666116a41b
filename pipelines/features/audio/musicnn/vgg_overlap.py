"""The VGG-style network on windows that overlap: what windows share of its first four convolutions is computed once.

Windows begin at even frames, so the first pooling (four frames, every second one) falls on the same frames in all of
them; time is counted in steps of two frames. Every later pooling halves the grid, and windows share what lies between
when they begin at the same phase of it: a window in two shares the third convolution, one in four the fourth. (Rows
every 0.25 s keep their phase for four rows or so.) What differs between a window and the stream around it is its
beginning, before which the network sees zeros. That stays narrow: of each convolution the two first values belong to
the window, of what the next one sees a single one. The end makes no difference: the last pooling takes eight values of
eleven, and four bands of six, so that the last 26 frames of a window and its two highest bands count for nothing.

Everything is computed in blocks that begin at multiples of their length in the stream. All blocks of a convolution have
the same shape, so a row's last bit does not depend on which rows were computed with it. What many windows need of a
convolution goes through it in one call: it takes one block after the other then, without the way there and back.
"""

from __future__ import annotations

import numpy as np
import torch

from pipelines.features.audio.mel import Frames
from pipelines.features.audio.musicnn.vgg import FRAMES, LAYERS, MusicnnVgg
from pipelines.features.audio.musicnn.vgg_layers import BANDS_SEEN, Values, open_layers
from pipelines.features.extractor import Rows

GRID = 2  # frames per step
SHARED = 3  # the last convolution whose values are shared
STRIDES = (1, 1, 2, 4)  # steps from one value of a convolution to the next; of the first, after its pooling
BLOCKS = (8, 8, 4, 4)  # their values in a block
MOST_TOGETHER = 8  # windows: more are no faster, and take memory
EDGE = 2  # values at the beginning of a window that are its own
LENGTH = 18  # values of the last of these convolutions that count in a window
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
            frames: Values = self._input_norm(torch.from_numpy(span[:, :BANDS_SEEN])[None, None]).numpy()
        rows = []
        begin = 0
        for end in range(1, len(starts) + 1):
            if end == len(starts) or starts[end] - starts[end - 1] > FRAMES - LEAST_OVERLAP:
                part = frames[:, :, starts[begin] - starts[0] : starts[end - 1] - starts[0] + FRAMES]
                stretch = _Stretch(self, part, starts[begin], known)
                rows += [
                    stretch.windows(starts[first : min(first + MOST_TOGETHER, end)])
                    for first in range(begin, end, MOST_TOGETHER)
                ]
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
        self._blocks = dict(known)

    def windows(self, starts: list[int]) -> Rows:
        """(windows, 256): what is pooled last of the windows whose first frames have these numbers in the stream."""
        steps = [start // GRID for start in starts]
        self._compute(steps)
        heads = np.zeros((len(starts), 1, STEP_FRAMES, self._frames.shape[3]), np.float32)
        for head, start in zip(heads, starts, strict=True):
            head[:, 1:] = self._frames[0, :, start - self._first :][:, : STEP_FRAMES - 1]
        first = self._layers[0](heads)
        for layer in range(1, SHARED + 1):
            after = np.concatenate([self._pooled(layer, *_place(layer, step, 1), EDGE) for step in steps])
            edges = self._layers[layer](np.concatenate([np.zeros_like(first), first, after], 2))
            first = _halved(edges)
        inside = [self._values(SHARED, *_place(SHARED, step, EDGE), LENGTH - EDGE) for step in steps]
        maps = _halved(np.concatenate([edges, np.concatenate(inside)], 2))
        for layer in range(SHARED + 1, LAYERS):
            maps = self._layers[layer](maps)
        return np.ascontiguousarray(maps.transpose(0, 2, 3, 1)).reshape(len(steps), -1)

    def _compute(self, steps: list[int]) -> None:
        """The blocks that windows which begin at these steps need: what is not known of each convolution at once."""
        wanted: list[set[tuple[int, int]]] = [set() for _ in BLOCKS]  # phases and numbers of blocks

        def want(layer: int, phase: int, first: int, count: int) -> None:
            for block in _block_numbers(layer, first, count):
                if (layer, phase, block) not in self._blocks:
                    wanted[layer].add((phase, block))

        for step in steps:
            for layer in range(1, SHARED + 1):
                want(*_seen(layer, *_place(layer, step, 1), EDGE))
            want(SHARED, *_place(SHARED, step, EDGE), LENGTH - EDGE)
        for layer in range(SHARED, 0, -1):
            for phase, block in wanted[layer]:
                want(*_seen(layer, phase, block * BLOCKS[layer] - 1, BLOCKS[layer] + 2))
        for layer, places in enumerate(wanted):
            if places:
                self._compute_blocks(layer, sorted(places))

    def _compute_blocks(self, layer: int, places: list[tuple[int, int]]) -> None:
        """Blocks of a convolution by phase and number."""
        size = BLOCKS[layer]
        inputs = [
            self._around(block * size) if layer == 0 else self._pooled(layer, phase, block * size - 1, size + 2)
            for phase, block in places
        ]
        results = self._layers[layer](np.concatenate(inputs))
        for (phase, block), result in zip(places, results, strict=True):
            values = self._blocks[layer, phase, block] = result[None]
            if self._is_whole(layer, phase, (block + 1) * size - 1):  # later windows find all that they need in it
                self._known[layer, phase, block] = values

    def _pooled(self, layer: int, phase: int, first: int, count: int) -> Values:
        """What a convolution sees from its value `first` of the stream on: the one before it, pooled."""
        values = self._values(*_seen(layer, phase, first, count))
        return values if layer == 1 else _halved(values)

    def _values(self, layer: int, phase: int, first: int, count: int) -> Values:
        """(1, channels, count, bands): values of a convolution from number `first` of the stream on."""
        blocks = [self._blocks[layer, phase, block] for block in _block_numbers(layer, first, count)]
        begin = first % BLOCKS[layer]
        return (blocks[0] if len(blocks) == 1 else np.concatenate(blocks, 2))[:, :, begin : begin + count]

    def _around(self, first: int) -> Values:
        """(1, 1, frames, 96): the frames that a block of the first convolution sees.

        Where it reaches past the stretch there are zeros. No window uses what comes of them.
        """
        begin, count = GRID * first - 1 - self._first, GRID * (BLOCKS[0] - 1) + STEP_FRAMES
        part = self._frames[:, :, max(begin, 0) : max(begin + count, 0)]
        before = min(max(-begin, 0), count)
        frames = np.zeros((1, 1, count, part.shape[3]), np.float32)
        frames[:, :, before : before + part.shape[2]] = part
        return frames

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


def _seen(layer: int, phase: int, first: int, count: int) -> tuple[int, int, int, int]:
    """Layer, phase, first and count of the values that so many of a convolution see, of the one before it."""
    if layer == 1:
        return 0, 0, first, count
    return layer - 1, *_place(layer - 1, first * STRIDES[layer] + phase, 0), 2 * count


def _block_numbers(layer: int, first: int, count: int) -> range:
    """The blocks that hold so many values of a convolution from number `first` of the stream on."""
    return range(first // BLOCKS[layer], (first + count - 1) // BLOCKS[layer] + 1)


def _halved(values: Values) -> Values:
    """The larger of two values after each other in time: (rows, channels, time, bands) to half as many."""
    even = values.shape[2] // 2 * 2
    return np.maximum(values[:, :, 0:even:2], values[:, :, 1:even:2])
