"""Reading TOML on every Python that we support (tomllib is new in 3.11)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigurationError, InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def loads_toml(text: str, where: str) -> dict[str, Any]:
    """Parse TOML text; `where` names it in the error."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{where} is not valid TOML: {error}") from error


def load_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return loads_toml(text, str(path))
