"""The musically motivated tagging network of musicnn (Pons and Serra, 2019), and what its layers offer as features.

The front end looks for timbres (tall filters) and for rhythms (long filters) and keeps the best place of each in the
spectrum; three convolutions in time, of which each sees the sum of those before, follow; the back end pools all four
over the window.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pipelines.features.audio.musicnn.vgg import TAGS, FixedBatchNorm

TIMBRAL = 204  # filters of each timbral branch
TEMPORAL = 51  # filters of each temporal branch
# (frames, bands) that the filters of each branch cover.
KERNELS = ((7, 38), (7, 67), (128, 1), (64, 1), (32, 1))
BRANCHES = (TIMBRAL, TIMBRAL, TEMPORAL, TEMPORAL, TEMPORAL)
FRONT = sum(BRANCHES)  # 561
MIDDLE = 64
MIDDLE_LAYERS = 3
MIDDLE_KERNEL = 7  # frames
LAYERS_WIDTH = FRONT + MIDDLE_LAYERS * MIDDLE  # 753
POOLED = 2 * LAYERS_WIDTH  # largest and mean of each
PENULTIMATE = 200


def time_padding(frames: int) -> tuple[int, int]:
    """Zeros before and after, so that a filter of `frames` frames gives as many as it gets: TensorFlow's rule."""
    return (frames - 1) // 2, frames // 2


class MusicnnMusical(nn.Module):
    """Batch norm stands at the very start, before all padding, and after the ReLU of every layer."""

    def __init__(self) -> None:
        super().__init__()
        self.input_norm = FixedBatchNorm(1)
        self.branches = nn.ModuleList(
            nn.Conv2d(1, width, kernel) for width, kernel in zip(BRANCHES, KERNELS, strict=True)
        )
        self.branch_norms = nn.ModuleList(FixedBatchNorm(width) for width in BRANCHES)
        inputs = (FRONT, *(MIDDLE,) * (MIDDLE_LAYERS - 1))
        self.middle = nn.ModuleList(
            nn.Conv1d(width, MIDDLE, MIDDLE_KERNEL, padding=MIDDLE_KERNEL // 2) for width in inputs
        )
        self.middle_norms = nn.ModuleList(FixedBatchNorm(MIDDLE) for _ in inputs)
        self.pooled_norm = FixedBatchNorm(POOLED)
        self.dense = nn.Linear(POOLED, PENULTIMATE)
        self.dense_norm = FixedBatchNorm(PENULTIMATE)
        self.output = nn.Linear(PENULTIMATE, TAGS)

    def branch(self, number: int, maps: Tensor) -> Tensor:
        """Normalised and padded (rows, 1, time + frames - 1, 96) to (rows, filters, time): the best band of each."""
        result: Tensor = self.branch_norms[number](torch.relu(self.branches[number](maps))).amax(3)
        return result

    def front(self, patches: Tensor) -> Tensor:
        """(rows, 187, 96) log-mel patches to (rows, 561, 187)."""
        maps = self.input_norm(patches[:, None])
        padded = [nn.functional.pad(maps, (0, 0, *time_padding(frames))) for frames, _ in KERNELS]
        return torch.cat([self.branch(number, part) for number, part in enumerate(padded)], 1)

    def after_first(self, summed: Tensor) -> list[Tensor]:
        """Sums of the first convolution in time (rows, 64, 187) to its layer and to the two after it."""
        layers: list[Tensor] = [self.middle_norms[0](torch.relu(summed))]
        for convolution, norm in list(zip(self.middle, self.middle_norms, strict=True))[1:]:
            layers.append(norm(torch.relu(convolution(layers[-1]))) + layers[-1])
        return layers

    def pooled(self, patches: Tensor) -> Tensor:
        """(rows, 187, 96) to (rows, 1506): largest and mean of each of 753 filters, in turn as in TensorFlow."""
        front = self.front(patches)
        layers = torch.cat([front, *self.after_first(self.middle[0](front))], 1)
        return torch.stack([layers.amax(2), layers.mean(2)], 2).flatten(1)

    def penultimate(self, pooled: Tensor) -> Tensor:
        """(rows, 1506) to (rows, 200): the layer that the tags are read from."""
        result: Tensor = self.dense_norm(torch.relu(self.dense(self.pooled_norm(pooled))))
        return result

    def tags(self, pooled: Tensor) -> Tensor:
        """(rows, 1506) to (rows, 50): the likelihood of each tag."""
        return torch.sigmoid(self.output(self.penultimate(pooled)))

    def forward(self, patches: Tensor) -> Tensor:
        """(rows, 187, 96) to (rows, 50)."""
        return self.tags(self.pooled(patches))
