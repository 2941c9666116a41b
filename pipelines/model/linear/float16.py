"""Linear layers whose weights are float16: half the memory to read for one row, which is what a step waits for.

Rows and sums stay float32. The product is FBGEMM's, which PyTorch has on x86; elsewhere the weights are widened for
every product: the same numbers to rounding, at about the time of a float32 layer. Small layers fit the cache and wait
for calls, not for memory: they keep their float16 numbers widened.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pipelines.model.linear.projection import SMALL, PackedProjection


class Float16Projection(PackedProjection):
    """Weights (out, in) of float16 numbers, activations float32."""

    weight: Tensor  # float16; float32 in small layers

    def _pack(self, weight: Tensor) -> None:
        half = weight.half()
        self.large = weight.numel() >= SMALL
        self.register_buffer("weight", half if self.large else half.float())
        self._parts: dict[tuple[int, int | None], Any] = {}  # outputs from … to, as FBGEMM wants them

    def project_part(self, rows: Tensor, first: int, last: int | None = None, biased: bool = True) -> Tensor:
        buffers = self._buffers
        weight, bias = buffers["weight"], buffers["bias"] if biased else None
        assert weight is not None
        if bias is not None and (first or last is not None):
            bias = bias[first:last]
        # Packed weights are no tensors: what is traced for an export takes the others.
        if self.large and has_fbgemm() and not torch.compiler.is_compiling():
            product: Tensor = torch.ops.quantized.linear_dynamic_fp16(rows, self._packed_part(weight, first, last))
            return product if bias is None else product.add_(bias)
        if first or last is not None:
            weight = weight[first:last]
        return F.linear(rows, weight.to(rows.dtype), bias)

    def _packed_part(self, weight: Tensor, first: int, last: int | None) -> Any:
        part = self._parts.get((first, last))
        if part is None:
            wide = weight[first:last].float().contiguous()
            part = self._parts[first, last] = torch.ops.quantized.linear_prepack_fp16(wide, None)
        return part

    def dense_weight(self) -> Tensor:
        return self.weight.float()


@cache
def has_fbgemm() -> bool:
    """Whether this build of PyTorch multiplies float16 weights by float32 rows."""
    try:
        torch.ops.quantized.linear_prepack_fp16(torch.ones(2, 2), None)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return True
