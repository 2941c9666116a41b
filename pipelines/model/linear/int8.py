"""Linear layers whose weights are int8, with a scale for each output; rows become int8 with a scale for each row.

    y = bias + row_scale · weight_scale · Σ q(x) · q(w)        q(v) = round(127 · v / largest |v|)

The sum is exact in int32. In small layers a row is the sum of two int8 rows, the second of which has what rounding took
from the first: 15 bits, for time that only large layers would feel. A row's scale is its own, so a stream's numbers do
not depend on the other streams of its batch, and a chunk has those of single steps.

The product is `torch._int_mm`, which torchao's int8 layers use too: plain int8 tensors and scales of one's own are what
PyTorch recommends in place of its quantised dtypes, which are going.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pipelines.model.linear.projection import SMALL, PackedProjection

LARGEST = 127
TINY = 2.0**-119  # the largest magnitude of rows that have less; a 127th of it is a normal float32


class Int8Projection(PackedProjection):
    """Weights int8, activations float32."""

    weight: Tensor  # (in, out) int8, the weights of an output side by side in memory
    scale: Tensor  # (out,) what a weight of 1 is worth

    def _pack(self, weight: Tensor) -> None:
        scaled, row_scale = scale_rows(weight)
        self.register_buffer("weight", scaled.round_().char().t())
        self.register_buffer("scale", row_scale.squeeze(1))
        self.fine = weight.numel() < SMALL  # whether rows have two parts

    def project_part(self, rows: Tensor, first: int, last: int | None = None, biased: bool = True) -> Tensor:
        buffers = self._buffers
        weight, scale, bias = buffers["weight"], buffers["scale"], buffers["bias"] if biased else None
        assert weight is not None and scale is not None
        if first or last is not None:
            weight, scale = weight[:, first:last], scale[first:last]
            bias = None if bias is None else bias[first:last]
        product, row_scale = self._product(rows if rows.dim() == 2 else rows.reshape(-1, rows.shape[-1]), weight)
        product.mul_(scale)
        result = product.mul_(row_scale) if bias is None else torch.addcmul(bias, product, row_scale)
        return result if rows.dim() == 2 else result.view(*rows.shape[:-1], -1)

    def _product(self, rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Σ q(x) q(w) of rows (m, in) and weights (in, out): (m, out), and what 1 is worth in each row (m, 1)."""
        scaled, row_scale = scale_rows(rows)
        if not self.fine:
            return torch._int_mm(scaled.round_().char(), weight).float(), row_scale
        coarse = scaled.round()
        rest = scaled.sub_(coarse).mul_(2 * LARGEST).round_()  # what is left is at most a half
        both = torch._int_mm(torch.cat([coarse, rest]).char(), weight).float()
        count = rows.shape[0]  # a tracer takes len() for a constant
        return both[:count].add_(both[count:], alpha=1 / (2 * LARGEST)), row_scale

    def dense_weight(self) -> Tensor:
        return self.weight.t() * self.scale.unsqueeze(1)


class Int8InputProjection(Int8Projection):
    """The layer that features enter, whose columns have units of their own, and offsets that dwarf what they tell.

    Columns are scaled so that the largest weight of each is 1, and rows have two parts however large the layer is.
    """

    columns: Tensor  # (in,) the largest weight of each column

    def _pack(self, weight: Tensor) -> None:
        columns = weight.abs().amax(0).clamp_min_(TINY)
        super()._pack(weight / columns)
        self.fine = True
        self.register_buffer("columns", columns)

    def _product(self, rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        return super()._product(rows * self.columns, weight)

    def dense_weight(self) -> Tensor:
        return super().dense_weight() * self.columns


def scale_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (m, k) from -127 to 127, and what 1 is worth in each of them (m, 1).

    A step of a large layer takes tens of microseconds, and so do ten small operations: these are few.
    """
    row_scale = rows.abs().amax(-1, keepdim=True).clamp_min_(TINY).mul_(1 / LARGEST)
    return rows / row_scale, row_scale


def int8_problem() -> str | None:
    """What keeps this machine from exact int8 products; None: nothing.

    Without instructions for them (VNNI on x86), pairs of products are added in 16 bits, where large ones overflow.
    """
    rows = torch.tensor([[LARGEST, -LARGEST, 1], [LARGEST, LARGEST, 0], [-LARGEST, -LARGEST, -1]]).repeat(1, 64)
    try:
        product = torch._int_mm(rows.char(), rows.char().t())
    except (AttributeError, RuntimeError):
        return "this build of PyTorch has no int8 products on a CPU"
    if not torch.equal(product.long(), rows @ rows.t()):
        return "the int8 products of this processor overflow (it has no VNNI instructions)"
    return None
