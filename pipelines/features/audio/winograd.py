"""3 × 3 convolutions with 2.25 times fewer multiplications (Winograd; Lavin and Gray, 2016).

The output is cut into tiles of 2 × 2, each of which depends on 4 × 4 inputs. In a transformed space, 16 products per
tile and channel pair take the place of 36. Both transforms are sums and differences, so next to nothing is lost: the
results are as near to the exact ones as those of a direct convolution in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

# The kernel's transform; those of input and output are written out in `_differences` and `_sums`.
KERNEL_TRANSFORM = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))

# Matrix libraries add in another order for fewer rows than this. Rows of zeros fill smaller products up, so that a
# result does not depend on how many others are computed with it.
LEAST_TILES = 48


class WinogradBlock:
    """Convolution with padding 1, bias and ReLU, then, where `pooled`, the maximum of each 2 × 2 tile."""

    def __init__(self, convolution: nn.Conv2d, pooled: bool) -> None:
        transform = torch.tensor(KERNEL_TRANSFORM, dtype=torch.float64)
        kernel = torch.einsum("xi,ocij,yj->xyco", transform, convolution.weight.detach().double(), transform)
        self._kernel = kernel.flatten(0, 1).float().contiguous()  # (16, inputs, outputs)
        assert convolution.bias is not None
        self._bias = convolution.bias.detach()
        self._pooled = pooled

    def __call__(self, maps: Tensor) -> Tensor:
        """(rows, height, width, inputs), height and width even, to the same with outputs, halved where pooled."""
        rows, height, width, inputs = maps.shape
        padded = nn.functional.pad(maps, (0, 0, 1, 1, 1, 1))
        count = rows * height * width // 4
        tiles = torch.zeros(4, 4, max(count, LEAST_TILES), inputs)
        shaped = tiles[:, :, :count].view(4, 4, rows, height // 2, width // 2, inputs)
        lines = torch.empty(4, rows, height // 2, width + 2, inputs)
        _differences([padded[:, offset : offset + height - 1 : 2] for offset in range(4)], list(lines))
        columns = [lines[:, :, :, offset : offset + width - 1 : 2] for offset in range(4)]
        _differences(columns, list(shaped.unbind(1)))
        products = torch.bmm(tiles.view(16, -1, inputs), self._kernel)
        products = products.view(4, 4, max(count, LEAST_TILES), -1)[:, :, :count]
        corners = [corner for line in _sums(products.unbind(0)) for corner in _sums(line.unbind(0))]
        if self._pooled:
            largest = torch.maximum(torch.maximum(*corners[:2]), torch.maximum(*corners[2:]))
            return largest.add_(self._bias).relu_().view(rows, height // 2, width // 2, -1)
        result = torch.empty(rows, height // 2, 2, width // 2, 2, len(self._bias))
        for corner, values in enumerate(corners):
            place = result[:, :, corner // 2, :, corner % 2]
            torch.add(values.view(place.shape), self._bias, out=place)
        return result.view(rows, height, width, -1).relu_()


def _differences(inputs: list[Tensor], results: list[Tensor]) -> None:
    """The input's transform along one axis: four neighbours to four combinations."""
    torch.sub(inputs[0], inputs[2], out=results[0])
    torch.add(inputs[1], inputs[2], out=results[1])
    torch.sub(inputs[2], inputs[1], out=results[2])
    torch.sub(inputs[1], inputs[3], out=results[3])


def _sums(products: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """The output's transform along one axis: four combinations to two neighbours."""
    first = products[0] + products[1]
    second = products[1] - products[2]
    return first.add_(products[2]), second.sub_(products[3])
