"""Count the multiply-accumulates (MACs) that really run, one operator at a time.

The counter stands below autograd, where every operator arrives, also under `no_grad` and `inference_mode`. Operators
that are made of others are taken apart; the rest are looked up in a table of products (`products.py`). Fused
attention and PyTorch's fused encoder path are in that table: counters that hook modules, or know only `mm` and `bmm`,
miss them. An operator that looks like a product and is not in the table is an error, not a zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pipelines.costs.products import PRODUCTS, looks_like_product
from pipelines.errors import ConfigurationError


@dataclass(frozen=True)
class OperatorCount:
    """The calls of one operator with operands of the same shapes."""

    operator: str  # "aten.mm"
    shapes: str  # "1x3072 3072x1024", of its tensor operands
    calls: int
    macs: int  # of all calls


@dataclass(frozen=True)
class MacCount:
    """What a counter saw, the largest part first."""

    total: int  # MACs
    operators: tuple[OperatorCount, ...]

    def of(self, operator: str) -> int:
        """MACs of one operator, such as "aten.bmm"."""
        return sum(row.macs for row in self.operators if row.operator == operator)


class MacCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what runs inside its `with` block. `counter.count` may be read at any time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls: Counter[tuple[str, str]] = Counter()
        self._macs: Counter[tuple[str, str]] = Counter()

    @property
    def count(self) -> MacCount:
        rows = [
            OperatorCount(operator, shapes, self._calls[operator, shapes], macs)
            for (operator, shapes), macs in self._macs.items()
        ]
        rows.sort(key=lambda row: (-row.macs, row.operator, row.shapes))
        return MacCount(sum(row.macs for row in rows), tuple(rows))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = str(func.overloadpacket)
        macs = PRODUCTS.get(name)
        if macs is None:
            # Under inference_mode operators such as linear and einsum arrive whole.
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
            if looks_like_product(name):
                raise ConfigurationError(f"the MAC counter does not know the operator {name}: add it to products.py")
        result = func(*args, **kwargs)
        if macs is not None:
            key = (name, _shapes(args))
            self._calls[key] += 1
            self._macs[key] += macs(args, kwargs, result)
        return result


def count_macs(function: Callable[..., Any], *args: Any, **kwargs: Any) -> MacCount:
    """The MACs of one call of `function`."""
    counter = MacCounter()
    with counter:
        function(*args, **kwargs)
    return counter.count


def _shapes(args: tuple[Any, ...]) -> str:
    tensors = [value for value in args if isinstance(value, Tensor) and value.dim()]
    return " ".join("x".join(map(str, _size(tensor))) for tensor in tensors[:3])


def _size(tensor: Tensor) -> list[int | str]:
    if tensor.is_nested:
        return [tensor.size(0), "*", tensor.size(-1)]
    return list(tensor.shape)
