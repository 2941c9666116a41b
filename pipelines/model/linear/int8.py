"""Linear layers whose weights are int8, with a scale for each output; rows become int8 with a scale for each row.

    y = bias + row_scale · weight_scale · Σ q(x) · q(w)        q(v) = round(127 · v / largest |v|)

The sum is exact in int32. In small layers a row is the sum of two int8 rows, the second of which has what rounding took
from the first: 15 bits, for time that only large layers would feel. A row's scale is its own, so a stream's numbers do
not depend on the other streams of its batch, and a chunk has those of single steps. (Without VNNI, `int8_fbgemm`, a
stream alone and one among others may round a number that lies between two steps differently.)

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
    largest = LARGEST  # of the whole numbers of rows

    def _pack(self, weight: Tensor) -> None:
        scaled, row_scale = scale_rows(weight, LARGEST)
        self.register_buffer("weight", scaled.round_().char().t())
        self.register_buffer("scale", row_scale.squeeze(1))
        self.fine = weight.numel() < SMALL  # whether rows have two parts

    def project_part(self, rows: Tensor, first: int, last: int | None = None, biased: bool = True) -> Tensor:
        bias = self._buffers["bias"] if biased else None
        if bias is not None and (first or last is not None):
            bias = bias[first:last]
        if rows.dim() == 2:
            return self._project_rows(rows, first, last, bias)
        return self._project_rows(rows.reshape(-1, rows.shape[-1]), first, last, bias).view(*rows.shape[:-1], -1)

    def _project_rows(self, rows: Tensor, first: int, last: int | None, bias: Tensor | None) -> Tensor:
        """Rows (m, in) to outputs `first` to `last` (m, out). bias: of these outputs."""
        weight, scale = self._buffers["weight"], self._buffers["scale"]
        assert weight is not None and scale is not None
        if first or last is not None:
            weight, scale = weight[:, first:last], scale[first:last]
        scaled, row_scale = scale_rows(rows, LARGEST)
        if self.fine:
            parts, share = two_parts(scaled, LARGEST)
            both = torch._int_mm(parts.char(), weight).float()
            count = rows.shape[0]  # a tracer takes len() for a constant
            product = both[:count].add_(both[count:], alpha=share)
        else:
            product = torch._int_mm(scaled.round_().char(), weight).float()
        product.mul_(scale)
        return product.mul_(row_scale) if bias is None else torch.addcmul(bias, product, row_scale)

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

    def _project_rows(self, rows: Tensor, first: int, last: int | None, bias: Tensor | None) -> Tensor:
        return super()._project_rows(rows * self.columns, first, last, bias)

    def dense_weight(self) -> Tensor:
        return super().dense_weight() * self.columns


def scale_rows(rows: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Rows (m, k) from -largest to largest, and what 1 is worth in each of them (m, 1).

    A step of a large layer takes tens of microseconds, and so do ten small operations: these are few.
    """
    row_scale = rows.abs().amax(-1, keepdim=True).clamp_min_(TINY).mul_(1 / largest)
    return rows / row_scale, row_scale


def two_parts(scaled: Tensor, largest: int) -> tuple[Tensor, float]:
    """Rows (m, k) as whole numbers, and below them what rounding took: (2m, k); and what 1 of that is worth.

    Both are from -largest to largest. `scaled` is written to.
    """
    coarse = scaled.round()
    rest = scaled.sub_(coarse).mul_(2 * largest).round_()  # what is left is at most a half
    return torch.cat([coarse, rest]), 1 / (2 * largest)


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
