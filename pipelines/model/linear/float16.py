"""Linear layers whose weights are float16: half the memory to read for one row, which is what a step waits for.

One row is multiplied in float16 with sums in float32. Processors without float16 arithmetic are slow at that for
many rows, so these take the weights as float32: the same weights, at about the time of a float32 layer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from pipelines.model.linear.projection import PackedProjection


class Float16Projection(PackedProjection):
    """Weights (out, in) float16, activations float32."""

    weight: Tensor

    def _pack(self, weight: Tensor) -> None:
        self.register_buffer("weight", weight.half())

    def project_part(self, rows: Tensor, first: int, last: int | None = None, biased: bool = True) -> Tensor:
        buffers = self._buffers
        weight, bias = buffers["weight"], buffers["bias"] if biased else None
        assert weight is not None
        if first or last is not None:
            weight, bias = weight[first:last], None if bias is None else bias[first:last]
        if rows.numel() != rows.shape[-1]:
            return F.linear(rows, weight.to(rows.dtype), bias)
        product = F.linear(rows.half(), weight).to(rows.dtype)
        return product if bias is None else product.add_(bias)

    def dense_weight(self) -> Tensor:
        return self.weight.float()


def float16_problem() -> str | None:
    """What keeps this machine from float16 products; None: nothing."""
    try:
        F.linear(torch.ones(1, 2, dtype=torch.float16), torch.ones(2, 2, dtype=torch.float16))
    except RuntimeError:
        return "this build of PyTorch has no float16 products on a CPU"
    return None
