"""Packages that only some users need: one way to ask for them, one sentence where they are missing."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from pipelines.errors import MissingDependencyError


def installed(*packages: str) -> bool:
    """Whether all of these packages are here. None of them is imported."""
    return all(_is_here(package) for package in packages)


def require(what: str, *packages: str, extra: str) -> None:
    """Refuse to begin without packages. what: the option or file that needs them; extra: of cotrans, which has them."""
    for package in packages:
        if not _is_here(package):
            raise MissingDependencyError(f"{what}: {package} is not installed: pip install 'cotrans[{extra}]'")


def _is_here(package: str) -> bool:
    return sys.modules.get(package) is not None or find_spec(package) is not None
