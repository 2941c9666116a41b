"""Reading TOML on every Python that we support (tomllib is new in 3.11), and KEY=VALUE with values in TOML."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import ConfigurationError, InputError, UsageError
from pipelines.untrusted.parsing import reason, require_machine_numbers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def loads_toml(text: str, where: str) -> dict[str, Any]:
    """Parse TOML text; `where` names it in the error."""
    try:
        values = tomllib.loads(text)
        require_machine_numbers(values)
    except (ValueError, RecursionError) as error:  # tomllib's own error is a ValueError
        raise ConfigurationError(f"{where} is not valid TOML: {reason(error)}") from error
    return values


def load_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return loads_toml(text, str(path))


def parse_pairs(texts: Sequence[str], flag: str) -> dict[str, Any]:
    """Values by key from "KEY=VALUE" texts of a command line; the value is TOML, or text where it is not."""
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} takes KEY=VALUE, not '{text}'")
        values[key.strip()] = parse_value(value)
    return values


def parse_value(text: str) -> Any:
    """A value on a command line: TOML, or text where it is not."""
    try:
        return loads_toml(f"value = {text}", "value")["value"]
    except ConfigurationError:
        return text
