"""The speech embedding on windows that overlap: every value of every layer is computed once.

Layers are taken together in steps, each of which ends where the next one needs its neighbours in time. A step keeps the
last values that it gave, so that a later window asks it for what is new alone. Poolings in time halve the rate: behind
one, the windows that begin at even frames share their values, and those that begin at odd ones theirs; behind all
three, windows share where their first frames differ by a multiple of eight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import lcm

import torch
from torch import Tensor

from pipelines.features.audio.speech.network import FRAMES, LAYERS, SpeechEmbedding


@dataclass(frozen=True)
class Step:
    """Layers whose values depend on `reach` values of the step before, `stride` of them further for each one."""

    layers: range
    reach: int
    stride: int
    frames: int  # by which two neighbouring values of this step differ


@dataclass(frozen=True)
class Tail:
    """The last values of a step that are known: from number `first` on, (1, channels, time, bands)."""

    first: int
    maps: Tensor

    @property
    def end(self) -> int:
        return self.first + self.maps.shape[2]

    def between(self, begin: int, end: int) -> Tensor:
        return self.maps[:, :, begin - self.first : end - self.first]

    def without(self, begin: int) -> Tail:
        """Without the values before number `begin`."""
        begin = min(max(begin, self.first), self.end)
        return Tail(begin, self.between(begin, self.end).clone())


# A step and the first frame of its value number 0, which tells windows apart that share nothing, to what it gave.
Tails = dict[tuple[int, int], Tail]


def _steps() -> Iterator[Step]:
    begins = [number for number, layer in enumerate(LAYERS) if layer.kernel[0] > 1]
    frames = 1
    for begin, end in zip(begins, [*begins[1:], len(LAYERS)], strict=True):
        stride = LAYERS[begin].pool[0]
        frames *= stride
        yield Step(range(begin, end), LAYERS[begin].kernel[0] + stride - 1, stride, frames)


STEPS = tuple(_steps())
GRID = STEPS[-1].frames  # frames: windows that begin at a multiple of it apart share everything


def windows_share(hop: float) -> bool:
    """Whether windows that begin `hop` frames apart overlap with one that they share everything with."""
    whole = round(hop)
    return abs(hop - whole) > 1e-6 or lcm(max(whole, 1), GRID) < FRAMES


class SharedWindows:
    """Rows of windows of one span of frames, with what earlier windows left in `tails`."""

    def __init__(self, network: SpeechEmbedding, span: Tensor, first: int, tails: Tails) -> None:
        """`span` (frames, 32) begins at frame `first` of the stream."""
        self._network, self._tails = network, tails
        self._frames = Tail(first, span[None, None])

    def rows(self, starts: Sequence[int]) -> Tensor:
        """(windows, 96) for windows that begin at frames `starts`, in order."""
        rows = []
        for run in _runs(starts):
            phase = run[0] % GRID
            numbers = [(start - phase) // GRID for start in run]
            maps = self._values(len(STEPS) - 1, phase, numbers[0], numbers[-1] + 1)
            rows += [maps[0, :, number - numbers[0], 0] for number in numbers]
        for (step, phase), tail in list(self._tails.items()):
            self._tails[step, phase] = tail.without((starts[-1] - phase) // STEPS[step].frames)
        return torch.stack(rows)

    def _values(self, step: int, phase: int, begin: int, end: int) -> Tensor:
        """(1, channels, end - begin, bands): values of a step, of which number 0 begins at frame `phase`."""
        if step < 0:
            return self._frames.between(begin, end)
        tail = self._tails.get((step, phase))
        known = tail is not None and tail.first <= begin <= tail.end
        new = tail.end if tail is not None and known else begin
        if new < end:
            kind, frames = STEPS[step], STEPS[step - 1].frames if step else 1
            # Where this step's value number 0 lies among the values of the step before.
            offset = phase // frames
            maps = self._values(
                step - 1,
                phase % frames,
                offset + new * kind.stride,
                offset + (end - 1) * kind.stride + kind.reach,
            )
            for layer in kind.layers:
                maps = self._network.layer(layer, maps)
            tail = (
                Tail(tail.first, torch.cat([tail.maps, maps], 2)) if tail is not None and known else Tail(begin, maps)
            )
            self._tails[step, phase] = tail
        assert tail is not None
        return tail.between(begin, end)


def _runs(starts: Sequence[int]) -> Iterator[list[int]]:
    """Neighbouring windows that overlap and share everything: they are computed in one go."""
    run: list[int] = []
    for start in starts:
        if run and (start % GRID != run[0] % GRID or start - run[-1] >= FRAMES):
            yield run
            run = []
        run.append(start)
    yield run
