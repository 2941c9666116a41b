"""The musical network on windows that overlap: only filters that say something, and what windows share computed once.

Most filters of the published networks were emptied by weight decay and give the same number whatever they hear. What
they add to the next layer depends on the distance to the window's edge alone, so it is computed once for all windows.
The values of the others are shared between windows where a filter sees frames of the window only; at the edges, where
it sees zeros, they belong to one window. There a filter that covers one band is a small matrix (frames in, values
out), the same for all bands and windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pipelines.features.audio.musicnn.musical import MusicnnMusical, time_padding
from pipelines.features.audio.musicnn.vgg import DEAD_INFLUENCE, FRAMES, NORM_EPSILON, FixedBatchNorm


@dataclass(frozen=True)
class Shared:
    """The values of a branch's filters from frame `first` of the stream on: (live filters, frames)."""

    first: int
    values: Tensor

    @property
    def end(self) -> int:
        return self.first + self.values.shape[1]


SharedValues = dict[int, Shared]  # by branch


class Branch:
    """The filters of a branch that say something."""

    def __init__(self, convolution: nn.Conv2d, alive: Tensor, scale: Tensor, shift: Tensor) -> None:
        """alive: (filters,) which filters say something. scale, shift: (filters,) the batch norm behind them."""
        assert convolution.bias is not None
        # Batch norm turns a filter over where its scale is negative: its best band has the smallest sum. Such a filter
        # is negated, so that all look for the largest; ReLU and batch norm then see one band only.
        sign = torch.where(scale < 0, -1.0, 1.0)
        self._kernel = (sign[:, None, None, None] * convolution.weight.detach())[alive].contiguous()
        self._bias = (sign * convolution.bias.detach())[alive]
        self._sign, self._scale, self._shift = (values[alive, None] for values in (sign, scale, shift))
        self.before, self.after = time_padding(self._kernel.shape[2])
        self._edges: tuple[Tensor, Tensor] | None = None
        self._whole: Tensor | None = None
        if self._kernel.shape[3] == 1:
            taps, reach = self._kernel[:, 0, :, 0], self.before + self.after
            self._edges = _banded(taps, range(-self.before, 0), reach), _banded(taps, range(self.after), reach)
            if reach > FRAMES // 2:
                self._whole = _banded(taps, range(-self.before, FRAMES - self.before), FRAMES)

    @property
    def shares(self) -> bool:
        """Whether windows have much in common: most values of a filter that is half as long as they are see an edge."""
        return self._whole is None

    @property
    def filters(self) -> int:
        return len(self._bias)

    def inside(self, maps: Tensor) -> Tensor:
        """(n, 1, time + reach - 1, 96) to (n, live filters, time): the best band of each."""
        return self._finished(nn.functional.conv2d(maps, self._kernel, self._bias).amax(3))

    def window(self, windows: Tensor) -> Tensor:
        """(windows, 187, 96) to (windows, live filters, 187), of a branch that shares nothing."""
        assert self._whole is not None
        return self._product(self._whole, windows)

    def edges(self, windows: Tensor) -> tuple[Tensor, Tensor]:
        """(windows, 187, 96) to the first values (windows, live filters, before) and the last ones (…, after)."""
        reach = self.before + self.after
        head, tail = windows[:, :reach], windows[:, -reach:]
        if self._edges is not None:
            return self._product(self._edges[0], head), self._product(self._edges[1], tail)
        head = nn.functional.pad(head, (0, 0, self.before, 0))
        tail = nn.functional.pad(tail, (0, 0, 0, self.after))
        return self.inside(head[:, None]), self.inside(tail[:, None])

    def _product(self, matrix: Tensor, frames: Tensor) -> Tensor:
        """matrix: (live filters · values, n). frames: (windows, n, 96). To (windows, live filters, values)."""
        sums = torch.matmul(matrix, frames).view(len(frames), self.filters, -1, frames.shape[2])
        return self._finished(sums.amax(3) + self._bias[:, None])

    def _finished(self, best: Tensor) -> Tensor:
        return torch.relu(self._sign * best) * self._scale + self._shift


def _banded(taps: Tensor, places: range, frames: int) -> Tensor:
    """Filters (live filters, taps) as a matrix (live filters · values, frames) from frames to their values.

    Value i takes tap k from frame places[i] + k; frames that are not there are zeros.
    """
    filters, length = taps.shape
    matrix = taps.new_zeros(filters, len(places), frames)
    for row, place in enumerate(places):
        begin, end = max(0, -place), min(length, frames - place)
        matrix[:, row, begin + place : end + place] = taps[:, begin:end]
    return matrix.flatten(0, 1)


class LiveMusical:
    """The function of a `MusicnnMusical` without the work of its constant filters."""

    def __init__(self, network: MusicnnMusical) -> None:
        self.network = network
        self._branches: list[Branch] = []
        live, constants = [], []
        for convolution, norm in zip(network.branches, network.branch_norms, strict=True):
            assert isinstance(convolution, nn.Conv2d) and isinstance(norm, FixedBatchNorm)
            assert convolution.bias is not None
            scale = (norm.weight / (norm.running_var + NORM_EPSILON).sqrt()).detach()
            shift = (norm.bias - norm.running_mean * scale).detach()
            alive = convolution.weight.detach().abs().sum((1, 2, 3)) * scale.abs() > DEAD_INFLUENCE
            self._branches.append(Branch(convolution, alive, scale, shift))
            live.append(alive)
            constants.append(convolution.bias.detach().relu() * scale + shift)
        alive, constant = torch.cat(live), torch.cat(constants)
        self._live = alive.nonzero()[:, 0]
        first = network.middle[0]
        assert isinstance(first, nn.Conv1d)
        self._first_kernel = first.weight.detach()[:, alive].contiguous()
        silent = (constant * ~alive)[None, :, None].expand(1, -1, FRAMES)
        # (1, 64, 187): what the constant filters and the bias add to the first convolution in time.
        self._first_constant = first(silent).detach()
        self._front = torch.stack([constant, constant], 1)  # (561, 2): largest and mean of the constant filters

    def pooled_windows(self, span: Tensor, starts: list[int], known: SharedValues) -> Tensor:
        """Frames (frames, 96) and the first frame of each window to (windows, 1506), as `MusicnnMusical.pooled` has it.

        `starts` count from the start of the stream; `span` begins with the first window. `known` is kept for the next
        call with later windows of the same stream.
        """
        normalised = self.network.input_norm(span[None, None])[0, 0]
        windows = torch.stack([normalised[start - starts[0] :][:FRAMES] for start in starts])
        front = torch.cat(
            [self._values(number, normalised, windows, starts, known) for number in range(len(self._branches))], 1
        )
        # One window at a time: the last bit of these convolutions depends on how many there are.
        middle = torch.cat([self._middle(window) for window in torch.split(front, 1)])
        pooled_front = self._front.repeat(len(starts), 1, 1).index_copy_(1, self._live, _pooled(front))
        return torch.cat([pooled_front, _pooled(middle)], 1).flatten(1)

    def _middle(self, front: Tensor) -> Tensor:
        """(1, live filters, 187) to (1, 3 · 64, 187): the three convolutions in time."""
        summed = nn.functional.conv1d(front, self._first_kernel, padding=self._first_kernel.shape[2] // 2)
        return torch.cat(self.network.after_first(summed + self._first_constant), 1)

    def _values(
        self, number: int, normalised: Tensor, windows: Tensor, starts: list[int], known: SharedValues
    ) -> Tensor:
        """(windows, live filters, 187) of a branch."""
        branch = self._branches[number]
        if not branch.shares:
            return branch.window(windows)
        inside = FRAMES - branch.before - branch.after  # values of a window that see no edge
        shared = known.get(number)
        parts = []
        for run in _overlapping(starts, inside):
            begin, end = run[0] + branch.before, run[-1] + branch.before + inside
            if shared is None or not shared.first <= begin <= shared.end:
                shared = Shared(begin, normalised.new_zeros(branch.filters, 0))
            if shared.end < end:
                frames = normalised[shared.end - branch.before - starts[0] : end + branch.after - starts[0]]
                new = branch.inside(frames[None, None])[0]
                shared = Shared(shared.first, torch.cat([shared.values, new], 1))
            places = [start + branch.before - shared.first for start in run]
            parts += [shared.values[:, place : place + inside] for place in places]
        assert shared is not None
        # Later windows begin later.
        passed = starts[-1] + branch.before - shared.first
        known[number] = Shared(shared.first + passed, shared.values[:, passed:].clone())
        head, tail = branch.edges(windows)
        return torch.cat([head, torch.stack(parts), tail], 2)


def _overlapping(starts: list[int], length: int) -> Iterator[list[int]]:
    """Runs of neighbouring windows of which each begins before the last ends, in stretches of that length."""
    run: list[int] = []
    for start in starts:
        if run and start - run[-1] > length:
            yield run
            run = []
        run.append(start)
    yield run


def _pooled(maps: Tensor) -> Tensor:
    """(windows, filters, time) to (windows, filters, 2): largest and mean."""
    return torch.stack([maps.amax(2), maps.mean(2)], 2)
