"""The linear layer of every model: all of its outputs or some of them, and weights that can be packed."""

from __future__ import annotations

from abc import abstractmethod

import torch.nn.functional as F
from torch import Tensor, nn

SMALL = 2**16  # weights below which a layer is small: it fits the cache, so that fewer bits save no time


class Projection(nn.Linear):
    """A linear layer of float32 weights."""

    def project(self, rows: Tensor) -> Tensor:
        """(…, in) to (…, out): `forward` without the cost of a module's call.

        A step of a small model takes tens of microseconds, and a look-up of a parameter through
        `nn.Module.__getattr__` about half a microsecond: hence the dictionary.
        """
        parameters = self._parameters
        weight = parameters["weight"]
        assert weight is not None  # as `nn.Linear` made it; a bias may be missing
        return F.linear(rows, weight, parameters["bias"])

    def project_part(self, rows: Tensor, first: int, last: int | None = None, biased: bool = True) -> Tensor:
        """Outputs `first` to `last` alone: (…, in) to (…, last - first), with or without their bias."""
        bias = self.bias if biased else None
        return F.linear(rows, self.weight[first:last], None if bias is None else bias[first:last])

    def dense_weight(self) -> Tensor:
        """The weights (out, in) in the precision of activations."""
        return self.weight


class PackedProjection(Projection):
    """A linear layer whose weights have fewer bits. It has no parameters: what it holds is not trained."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight: (out, in) float32; bias: (out,) float32."""
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.register_buffer("bias", None if bias is None else bias.detach())
        self._pack(weight.detach())

    @abstractmethod
    def _pack(self, weight: Tensor) -> None:
        """Keep the weights (out, in) in buffers of this kind."""

    @abstractmethod
    def project_part(self, rows: Tensor, first: int, last: int | None = None, biased: bool = True) -> Tensor: ...

    @abstractmethod
    def dense_weight(self) -> Tensor: ...

    def project(self, rows: Tensor) -> Tensor:
        return self.project_part(rows, 0)

    def forward(self, rows: Tensor) -> Tensor:
        return self.project_part(rows, 0)
