"""int8 weights on processors without VNNI instructions: FBGEMM's product, for which rows have seven bits.

    y = bias + row_scale · weight_scale · Σ q(x) · q(w)        q(x) = round(63 · x / largest |x|), q(w) as in `int8`

Such processors add pairs of products in 16 bits: 2 · 127 · 127 fits there, and the eighth bit of a row does not. The
sum is then exact in int32. PyTorch's `_int_mm` has no kernel for them but a plain loop, which takes 20 times as long.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pipelines.model.linear.int8 import TINY, Int8InputProjection, Int8Projection, scale_rows, two_parts

LARGEST = 63
ZERO = 64  # rows are unsigned there: 1 to 127


class FbgemmInt8Projection(Int8Projection):
    """Weights int8, activations float32."""

    largest = LARGEST

    def _pack(self, weight: Tensor) -> None:
        super()._pack(weight)
        self._parts: dict[tuple[int, int | None], Any] = {}  # outputs from … to, as FBGEMM wants them

    def _project_rows(self, rows: Tensor, first: int, last: int | None, bias: Tensor | None) -> Tensor:
        part = self._packed_part(first, last)
        if rows.shape[0] == 1 and not self.fine:
            # One stream's step is short: one operation scales, multiplies and scales back. It multiplies by 1 / scale
            # where several rows are divided, so that one in a thousand rows has a number that is a step off.
            low, high = torch.aminmax(rows)
            largest = max(high.item(), -low.item(), TINY)
            if largest < float("inf"):  # and is a number
                product = _product(rows, largest / LARGEST, part)
                return product if bias is None else product.add_(bias)
        scaled, row_scale = scale_rows(rows, LARGEST)
        if self.fine:
            parts, share = two_parts(scaled, LARGEST)
            both = _product(parts, 1.0, part)
            product = both[: rows.shape[0]].add_(both[rows.shape[0] :], alpha=share)
        else:
            product = _product(scaled, 1.0, part)
        return product.mul_(row_scale) if bias is None else torch.addcmul(bias, product, row_scale)

    def _packed_part(self, first: int, last: int | None) -> Any:
        part = self._parts.get((first, last))
        if part is None:
            part = self._parts[first, last] = _packed(self.weight.t()[first:last], self.scale[first:last])
        return part


class FbgemmInt8InputProjection(Int8InputProjection, FbgemmInt8Projection):
    """The layer that features enter, as `Int8InputProjection` has it."""


def _product(rows: Tensor, scale: float, packed: Any) -> Tensor:
    """Rows (m, in) rounded to whole `scale`s, times packed weights (in, out)."""
    product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(rows, scale, ZERO, packed)
    return product


def _packed(weight: Tensor, scale: Tensor) -> Any:
    """Weights (out, in) int8 and what 1 is worth in each output, as FBGEMM wants them."""
    with warnings.catch_warnings():  # PyTorch's quantised tensors are going; this one is gone after this call
        warnings.simplefilter("ignore")
        zeros = torch.zeros(len(scale), dtype=torch.long)
        tensor = torch._make_per_channel_quantized_tensor(weight.contiguous(), scale.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(tensor, None)


@cache
def has_fbgemm_int8() -> bool:
    """Whether PyTorch has FBGEMM's int8 products here, and they are exact."""
    if torch.backends.quantized.engine not in ("x86", "fbgemm"):
        return False
    weight = torch.tensor([[127, -127, 1], [127, 127, 0], [-127, -127, -1]], dtype=torch.int8).repeat(1, 64)
    rows = (weight.float() / 2).trunc_()  # up to 63
    try:
        product = _product(rows, 1.0, _packed(weight, torch.ones(len(weight))))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return torch.equal(product, rows @ weight.t().float())


def is_better_here() -> bool:
    """Whether these products are to be preferred: PyTorch's `_int_mm` is quick with VNNI alone."""
    has_vnni = getattr(torch.cpu, "_is_vnni_supported", lambda: True)  # that of AVX-512; without it, what was before
    return has_fbgemm_int8() and not has_vnni()
