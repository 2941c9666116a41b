"""A model with weights of fewer bits, made from one in float32."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import nn

from pipelines.errors import ConfigurationError, MissingDependencyError
from pipelines.model.continual_model import ContinualModel
from pipelines.model.linear.float16 import Float16Projection
from pipelines.model.linear.int8 import Int8InputProjection, Int8Projection, int8_problem
from pipelines.model.linear.int8_fbgemm import FbgemmInt8InputProjection, FbgemmInt8Projection, is_better_here
from pipelines.model.linear.projection import SMALL, PackedProjection, Projection
from pipelines.model.precision import Precision, parse_precision

Module = TypeVar("Module", bound=nn.Module)
Model = TypeVar("Model", bound=ContinualModel)
CLASSIFIER = "classifier"  # stays float32: it is small, and scores that are nearly equal hang on it


@dataclass(frozen=True)
class Kernel:
    """How layers are packed. Small ones fit the cache: fewer bits than 16 save nothing there."""

    inner: type[PackedProjection]
    small: type[PackedProjection]
    entered: type[PackedProjection]  # by features
    small_entered: type[PackedProjection]
    problem: Callable[[], str | None]  # of this machine

    def of(self, layer: Projection, entered: bool) -> type[PackedProjection]:
        if layer.weight.numel() < SMALL:
            return self.small_entered if entered else self.small
        return self.entered if entered else self.inner


FLOAT16 = Kernel(Float16Projection, Float16Projection, Float16Projection, Float16Projection, lambda: None)
INT8 = Kernel(Int8Projection, Int8Projection, Int8InputProjection, Float16Projection, int8_problem)
INT8_WITHOUT_VNNI = Kernel(
    FbgemmInt8Projection, Float16Projection, FbgemmInt8InputProjection, Float16Projection, lambda: None
)


def kernel_of(precision: Precision, portable: bool = False) -> Kernel:
    """portable: operations that an exported file can hold, whatever is fastest on this processor."""
    if precision == "float16":
        return FLOAT16
    return INT8_WITHOUT_VNNI if not portable and is_better_here() else INT8


@runtime_checkable
class Packable(Protocol):
    """A module other than a `Projection` that knows how to be packed."""

    def packed(self, kind: type[PackedProjection]) -> nn.Module: ...


def with_precision(model: Model, precision: Precision, portable: bool = False) -> Model:
    """The model itself in float32; else one whose projections are packed and which shares everything besides.

    Norms, positions and state stay float32, so a stream may go on in another precision than it began in.
    portable: as in `kernel_of`.
    """
    return packed_copy(model, precision, model.input_layers, portable)


def packed_copy(
    module: Module, precision: Precision, input_layers: Sequence[Projection] = (), portable: bool = False
) -> Module:
    """`with_precision` for a part of a model. input_layers: those of its projections that features enter."""
    if parse_precision(precision) == "float32":
        return module
    if any(isinstance(layer, PackedProjection) for layer in module.modules()):
        raise ConfigurationError("the weights of this model are packed already: open it in float32, and pack that")
    tensors = (*module.parameters(), *module.buffers())
    check_kernel(precision, tensors[0].device, portable)
    shared: dict[int, Any] = {id(tensor): tensor for tensor in tensors}
    twin = copy.deepcopy(module, shared).eval()
    # `shared` says what became of everything that was copied.
    _pack(twin, kernel_of(precision, portable), [shared[id(layer)] for layer in input_layers])
    return twin


def check_kernel(precision: Precision, device: torch.device, portable: bool = False) -> None:
    """Raise where a precision cannot be had."""
    if precision == "float32":
        return
    if device.type != "cpu":
        raise MissingDependencyError(f"--precision {precision} is for a CPU, not for {device.type}: add --device cpu")
    if problem := kernel_of(precision, portable).problem():
        raise MissingDependencyError(f"--precision {precision}: {problem}: use --precision float32")


def _pack(module: nn.Module, kernel: Kernel, input_layers: Sequence[Projection]) -> None:
    for name, child in module.named_children():
        if isinstance(child, Projection):
            entered = any(child is layer for layer in input_layers)
            # The int8 product of PyTorch is wrong for a single input, and one has nothing to save.
            if child.in_features > 1 and (entered or name != CLASSIFIER):
                kind = kernel.of(child, entered)
                setattr(module, name, kind(child.weight, cast(Any, child.bias)))
        elif isinstance(child, Packable):
            setattr(module, name, child.packed(kernel.inner))
        else:
            _pack(child, kernel, input_layers)
