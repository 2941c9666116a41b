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
from pipelines.model.linear.projection import SMALL, PackedProjection, Projection
from pipelines.model.precision import Precision, parse_precision

Module = TypeVar("Module", bound=nn.Module)
Model = TypeVar("Model", bound=ContinualModel)
CLASSIFIER = "classifier"  # stays float32: it is small, and scores that are nearly equal hang on it


@dataclass(frozen=True)
class Kernel:
    """How layers are packed."""

    inner: type[PackedProjection]
    entered: type[PackedProjection]  # by features
    small_entered: type[PackedProjection]  # too small for int8 to save anything, and what it loses nothing makes good
    problem: Callable[[], str | None]  # of this machine

    def of(self, layer: Projection, entered: bool) -> type[PackedProjection]:
        if not entered:
            return self.inner
        return self.small_entered if layer.weight.numel() < SMALL else self.entered


KERNELS: dict[Precision, Kernel] = {
    "float16": Kernel(Float16Projection, Float16Projection, Float16Projection, lambda: None),
    "int8": Kernel(Int8Projection, Int8InputProjection, Float16Projection, int8_problem),
}


@runtime_checkable
class Packable(Protocol):
    """A module other than a `Projection` that knows how to be packed."""

    def packed(self, kind: type[PackedProjection]) -> nn.Module: ...


def with_precision(model: Model, precision: Precision) -> Model:
    """The model itself in float32; else one whose projections are packed and which shares everything besides.

    Norms, positions and state stay float32, so a stream may go on in another precision than it began in.
    """
    return packed_copy(model, precision, model.input_layers)


def packed_copy(module: Module, precision: Precision, input_layers: Sequence[Projection] = ()) -> Module:
    """`with_precision` for a part of a model. input_layers: those of its projections that features enter."""
    if parse_precision(precision) == "float32":
        return module
    if any(isinstance(layer, PackedProjection) for layer in module.modules()):
        raise ConfigurationError("the weights of this model are packed already: open it in float32, and pack that")
    tensors = (*module.parameters(), *module.buffers())
    check_kernel(precision, tensors[0].device)
    shared: dict[int, Any] = {id(tensor): tensor for tensor in tensors}
    twin = copy.deepcopy(module, shared).eval()
    # `shared` says what became of everything that was copied.
    _pack(twin, KERNELS[precision], [shared[id(layer)] for layer in input_layers])
    return twin


def check_kernel(precision: Precision, device: torch.device) -> None:
    """Raise where a precision cannot be had."""
    if precision == "float32":
        return
    if device.type != "cpu":
        raise MissingDependencyError(f"--precision {precision} is for a CPU, not for {device.type}: add --device cpu")
    if problem := KERNELS[precision].problem():
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
