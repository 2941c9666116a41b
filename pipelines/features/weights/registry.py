"""The table of known weights (`weights/registry.toml`) as objects."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import weights
from pipelines.errors import ConfigurationError
from pipelines.untrusted.toml import load_toml

SHIPPED = Path(weights.__file__).parent
HEX_DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class WeightEntry:
    """One file of weights: where it comes from, what it must be, what it was trained on."""

    name: str
    file: str  # its name in the cache, or in `weights/` when shipped
    licence: str
    trained_on: str
    sha256: str  # 64 hex digits, or the first ones where the publisher gives no more
    url: str | None = None
    package: str | None = None  # "name==version"
    member: str | None = None  # path inside the package
    shipped: bool = False
    size: int | None = None  # bytes, exactly
    about_size: int | None = None  # bytes by parameter count, for display
    extractor: str | None = None
    default: bool = False
    tag: str | None = None  # short name of the training set

    def __post_init__(self) -> None:
        where = f"the weight registry's entry '{self.name}'"
        if len(self.sha256) < 8 or not set(self.sha256) <= HEX_DIGITS:
            raise ConfigurationError(f"{where} needs 8 to 64 lower-case hex digits as its sha256")
        if not (self.url or self.package or self.shipped):
            raise ConfigurationError(f"{where} needs a source: url, package or shipped")
        if self.package and not self.member:
            raise ConfigurationError(f"{where} names a package and no member of it")
        if "/" in self.file or self.file.startswith("."):
            raise ConfigurationError(f"{where}: '{self.file}' is not a plain file name")

    @property
    def source(self) -> str:
        """Where it comes from, in one word or address."""
        return "shipped with cotrans" if self.shipped else self.url or f"package {self.package}"


def read_registry(path: Path) -> dict[str, WeightEntry]:
    """The entries of a registry file by name; unknown or missing keys are errors."""
    entries = {}
    for name, values in load_toml(path).items():
        entries[name] = _entry(name, values)
    defaults = [entry.extractor for entry in entries.values() if entry.default]
    if len(set(defaults)) < len(defaults) or None in defaults:
        raise ConfigurationError(f"{path}: an extractor has one default entry, and a default entry has an extractor")
    return entries


@cache
def known_weights() -> dict[str, WeightEntry]:
    """The registry that ships with cotrans."""
    return read_registry(SHIPPED / "registry.toml")


def _entry(name: str, values: Any) -> WeightEntry:
    keys = {field.name: field.default is MISSING for field in fields(WeightEntry) if field.name != "name"}
    if not isinstance(values, dict):
        raise ConfigurationError(f"the weight registry's entry '{name}' is not a table")
    unknown = [key for key in values if key not in keys]
    missing = [key for key, required in keys.items() if required and key not in values]
    if unknown or missing:
        problem = f"unknown key '{unknown[0]}'" if unknown else f"'{missing[0]}' is missing"
        raise ConfigurationError(f"the weight registry's entry '{name}': {problem}")
    kinds = {field.name: str(field.type).split(" ")[0] for field in fields(WeightEntry)}
    for key, value in values.items():
        if type(value).__name__ != kinds[key]:
            raise ConfigurationError(f"the weight registry's entry '{name}': {key} must be a {kinds[key]}")
    return WeightEntry(name=name, **values)
