"""Class names as a user gives them: a file with one on each line or a JSON list, or the names themselves."""

from __future__ import annotations

from pathlib import Path

from pipelines.errors import InputError, UsageError
from pipelines.untrusted.parsing import json_value


def parse_labels(text: str) -> tuple[str, ...]:
    """Names from a file, or "cat,dog,rain"."""
    if Path(text).exists() or "," not in text:
        return read_labels(Path(text))
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageError(f"--labels {text}: a name between the commas is empty")
    return names


def read_labels(path: Path) -> tuple[str, ...]:
    """The names, in the order of the classes. Lines that are empty or begin with # are left out."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"class names cannot be read from {path}: {reason}") from error
    if path.suffix.lower() == ".json":
        try:
            names = json_value(text)
        except ValueError as error:
            raise InputError(f"{path} is not JSON: {error}") from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError(f"{path} is not a JSON list of names, each in double quotes")
    else:
        names = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not names:
        raise InputError(f"{path} has no class names: write one on each line")
    return tuple(names)
