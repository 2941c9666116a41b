"""The musical network on windows that overlap: only filters that say something, and timbres computed once.

Most filters of the published networks were emptied by weight decay and give the same number whatever they hear. What
they add to the next layer depends on the distance to the window's edge alone, so it is computed once for all windows.
Of the others, timbral filters (7 frames) are shared between windows, except for the three first and the three last
frames of a window, where they see zeros. Temporal filters are as long as the window itself, few and cheap.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pipelines.features.audio.musicnn.musical import KERNELS, MusicnnMusical, time_padding
from pipelines.features.audio.musicnn.vgg import DEAD_INFLUENCE, FRAMES, NORM_EPSILON, FixedBatchNorm

# The shared part is computed in blocks of this many frames, which begin at multiples of it in the stream. All have the
# same shape, so a row's last bit does not depend on which rows were computed with it.
BLOCK = 4
EDGE = 3  # frames at either end of a window whose timbral filters reach past it
TIMBRAL_BRANCHES = (0, 1)

# Number of a block to its timbral filters, (1, filters, 4).
TimbralBlocks = dict[int, Tensor]


class LiveMusical:
    """The function of a `MusicnnMusical` without the work of its constant filters."""

    def __init__(self, network: MusicnnMusical) -> None:
        self.network = network
        self._branches: list[tuple[Tensor, ...]] = []  # of each: kernel, bias, sign, scale and shift of its filters
        live, constants = [], []
        for convolution, norm in zip(network.branches, network.branch_norms, strict=True):
            assert isinstance(convolution, nn.Conv2d) and isinstance(norm, FixedBatchNorm)
            assert convolution.bias is not None
            kernel, bias = convolution.weight.detach(), convolution.bias.detach()
            scale = (norm.weight / (norm.running_var + NORM_EPSILON).sqrt()).detach()
            shift = (norm.bias - norm.running_mean * scale).detach()
            alive = kernel.abs().sum((1, 2, 3)) * scale.abs() > DEAD_INFLUENCE
            # Batch norm turns a filter over where its scale is negative: its best band has the smallest sum. Such
            # a filter is negated, so that all look for the largest; ReLU and batch norm then see one band only.
            sign = torch.where(scale < 0, -1.0, 1.0)
            signed = (sign[:, None, None, None] * kernel)[alive].contiguous()
            columns = (values[alive, None] for values in (sign, scale, shift))
            self._branches.append((signed, (sign * bias)[alive], *columns))
            live.append(alive)
            constants.append(bias.relu() * scale + shift)
        alive, constant = torch.cat(live), torch.cat(constants)
        self._live = alive.nonzero()[:, 0]
        first = network.middle[0]
        assert isinstance(first, nn.Conv1d)
        self._first_kernel = first.weight.detach()[:, alive].contiguous()
        silent = (constant * ~alive)[None, :, None].expand(1, -1, FRAMES)
        # (1, 64, 187): what the constant filters and the bias add to the first convolution in time.
        self._first_constant = first(silent).detach()
        self._front = torch.stack([constant, constant], 1)  # (561, 2): largest and mean of the constant filters

    def pooled_windows(self, span: Tensor, starts: list[int], known: TimbralBlocks) -> Tensor:
        """Frames (frames, 96) and the first frame of each window to (windows, 1506), as `MusicnnMusical.pooled` has it.

        `starts` count from the start of the stream; `span` begins with the first window. `known` is kept for the next
        call with later windows of the same stream.
        """
        for block in [block for block in known if (block + 1) * BLOCK <= starts[0] + EDGE]:
            del known[block]
        normalised = self.network.input_norm(span[None, None])
        return torch.cat([self._window(normalised, starts[0], start, known) for start in starts])

    def _window(self, normalised: Tensor, first: int, start: int, known: TimbralBlocks) -> Tensor:
        """(1, 1506) of the window at frame `start`; `normalised` (1, 1, frames, 96) begins at frame `first`."""
        place = start - first
        window = normalised[:, :, place : place + FRAMES]
        temporal = [
            self._branch(number, nn.functional.pad(window, (0, 0, *time_padding(KERNELS[number][0]))))
            for number in range(len(TIMBRAL_BRANCHES), len(KERNELS))
        ]
        begin, end = start + EDGE, start + FRAMES - EDGE  # frames that see no edge
        blocks = range(begin // BLOCK, (end - 1) // BLOCK + 1)
        shared = torch.cat([self._block(normalised, first, block, known) for block in blocks], 2)
        shared = shared[:, :, begin - blocks[0] * BLOCK :][:, :, : end - begin]
        head = nn.functional.pad(window[:, :, : 2 * EDGE], (0, 0, EDGE, 0))
        tail = nn.functional.pad(window[:, :, -2 * EDGE :], (0, 0, 0, EDGE))
        timbral = torch.cat([self._timbral(head), shared, self._timbral(tail)], 2)
        front = torch.cat([timbral, *temporal], 1)
        summed = nn.functional.conv1d(front, self._first_kernel, padding=self._first_kernel.shape[2] // 2)
        middle = torch.cat(self.network.after_first(summed + self._first_constant), 1)
        pooled_front = self._front.index_copy(0, self._live, _pooled(front))
        return torch.cat([pooled_front, _pooled(middle)]).flatten()[None]

    def _block(self, normalised: Tensor, first: int, block: int, known: TimbralBlocks) -> Tensor:
        if block in known:
            return known[block]
        begin = block * BLOCK - EDGE - first
        end, frames = begin + BLOCK + 2 * EDGE, normalised.shape[2]
        # Where the block reaches past the span it gets zeros. No window uses what comes of them.
        part = normalised[:, :, max(begin, 0) : end]
        result = self._timbral(nn.functional.pad(part, (0, 0, max(-begin, 0), max(end - frames, 0))))
        if end <= frames:  # later windows, which begin later, find all that they need in it
            known[block] = result
        return result

    def _timbral(self, maps: Tensor) -> Tensor:
        """(1, 1, time + 6, 96) to (1, filters, time)."""
        return torch.cat([self._branch(number, maps) for number in TIMBRAL_BRANCHES], 1)

    def _branch(self, number: int, maps: Tensor) -> Tensor:
        """(1, 1, time + frames - 1, 96) to (1, live filters, time): the best band of each."""
        kernel, bias, sign, scale, shift = self._branches[number]
        best = sign * nn.functional.conv2d(maps, kernel, bias).amax(3)
        return torch.relu(best) * scale + shift


def _pooled(maps: Tensor) -> Tensor:
    """(1, filters, time) to (filters, 2): largest and mean."""
    return torch.stack([maps[0].amax(1), maps[0].mean(1)], 1)
