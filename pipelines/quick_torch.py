"""PyTorch without the parts that trace and compile models, which take two fifths of the time that importing it takes.

`import torch` loads its exporter, the rules by which a tracer knows shapes, its quantisers, distributions, optimisers
and loaders of data. A command that only runs models looks into none of them. Here such a module is an empty one until
somebody does, and is loaded then. Computing on the meta device (shapes without numbers) is the one thing that needs
such rules without asking: commands that do it import torch as it is. `seeded_generator` is for what needs them, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

COMPILER = "torch._dynamo"
RULES = ("torch._meta_registrations", "torch.distributed._meta_registrations")  # shapes of what operations give
# A version of torch that has no such module never asks for it.
DEFERRED = frozenset(
    {
        *RULES,
        "torch.export",
        "torch.ao",
        "torch.nn.intrinsic",
        "torch.nn.qat",
        "torch.nn.quantizable",
        "torch.nn.quantized",
        "torch.quantization",
        "torch.distributions",
        "torch.masked",
        "torch.optim",
        "torch.utils.data",
        "unittest.mock",  # torch._guards imports it, and with it asyncio
    }
)


def defer_compiler() -> None:
    """To be called before torch is imported; afterwards it does nothing."""
    if "torch" not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def seeded_generator(seed: int) -> torch.Generator:
    """Random numbers of their own: newer versions of torch make none before the rules are loaded."""
    for name in RULES:
        _load(sys.modules.get(name))
    import torch

    return torch.Generator().manual_seed(seed)


class _Deferred(ModuleType):
    """A module whose contents are loaded when one of its names is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        _load(self)
        return getattr(self, name)


def _load(module: ModuleType | None) -> None:
    """The contents of a module that waits for them."""
    loader = module.__spec__.loader if isinstance(module, _Deferred) and module.__spec__ is not None else None
    if isinstance(loader, _DeferringLoader) and module is not None:
        loader.load(module)


class _DeferringLoader(Loader):
    def __init__(self, real: Loader) -> None:
        self._real = real
        self._lock = RLock()

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Not yet."""

    def load(self, module: ModuleType) -> None:
        """The contents, once."""
        with self._lock:
            if isinstance(module, _Deferred):
                module.__class__ = ModuleType  # type: ignore[assignment]
                self._real.exec_module(module)


class _Finder(MetaPathFinder):
    """Finds the modules of `DEFERRED` where Python would."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == COMPILER:  # its modules import one another in a circle, which these open at the right place
            for name in RULES:
                _load(sys.modules.get(name))
        if fullname not in DEFERRED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _DeferringLoader(spec.loader)
        return spec
