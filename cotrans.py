"""`import cotrans`: the public names of `pipelines`, under the name that is installed. See `help("pipelines")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pipelines

if TYPE_CHECKING:
    from pipelines import *  # noqa: F403

__version__ = pipelines.__version__
__all__ = list(pipelines.__all__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(pipelines, name)


def __dir__() -> list[str]:
    return sorted(__all__)
