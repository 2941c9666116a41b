"""The user's defaults, `~/.config/cotrans/config.toml`, and the cache folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pipelines.devices import DEVICES
from pipelines.errors import ConfigurationError, InputError
from pipelines.untrusted.toml import load_toml
from pipelines.wording import did_you_mean

DEFAULT_MODEL = "sound-events"  # where the file names none


@dataclass(frozen=True)
class Settings:
    """What the file may say. None: it says nothing."""

    device: str = "auto"  # auto, cpu or cuda
    threads: int | None = None  # of PyTorch
    cache: Path | None = None  # where downloaded weights and prepared files are kept
    default_model: str | None = None  # name or file


def settings_path() -> Path:
    """`COTRANS_CONFIG`, or config.toml in the user's configuration folder."""
    if chosen := os.environ.get("COTRANS_CONFIG"):
        return _expanded(chosen, "COTRANS_CONFIG")
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "cotrans" / "config.toml"


def load_settings(path: Path | None = None) -> Settings:
    """The settings in the user's file, or the defaults where there is none. Unknown keys are errors."""
    path = path or settings_path()
    if not path.is_file():
        return Settings()
    values = load_toml(path)
    known = [field.name for field in fields(Settings)]
    for key, value in values.items():
        if key not in known:
            hint = did_you_mean(key, known, otherwise=f" (settings: {', '.join(known)})")
            raise ConfigurationError(f"{path}: there is no setting '{key}'{hint}")
        _check(path, key, value)
    if "cache" in values:
        values["cache"] = _expanded(values["cache"], f"{path}: cache")
    return Settings(**values)


def cache_dir() -> Path:
    """The user's cache folder: `COTRANS_CACHE`, what config.toml says, or where the platform keeps caches."""
    if chosen := os.environ.get("COTRANS_CACHE"):
        return _expanded(chosen, "COTRANS_CACHE")
    if (set_by_user := load_settings().cache) is not None:
        return set_by_user
    import platformdirs

    return Path(platformdirs.user_cache_dir("cotrans"))


def unwritable_cache(folder: Path, error: OSError) -> InputError:
    """What a folder of the cache that cannot be written to is told as."""
    return InputError(
        f"cannot write to the cache folder {folder} ({error.strerror or error}); COTRANS_CACHE sets another"
    )


def _expanded(text: str, what: str) -> Path:
    """A path with ~ and ~NAME spelled out."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigurationError(f"{what} is '{text}', and there is no such user: write the folder out") from error


def _check(path: Path, key: str, value: Any) -> None:
    if key == "threads":
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigurationError(f"{path}: threads must be a positive whole number, not {value!r}")
    elif not isinstance(value, str) or not value:
        raise ConfigurationError(f"{path}: {key} must be text in quotes, not {value!r}")
    if key == "device" and value not in DEVICES:
        raise ConfigurationError(f"{path}: device must be auto, cpu or cuda, not '{value}'")
