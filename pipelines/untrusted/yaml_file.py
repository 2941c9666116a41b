"""Reading YAML that nobody vouches for: plain values only, and no more of them than a configuration has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.errors import InputError
from pipelines.wording import one_line

_LARGEST = 1 << 20  # bytes: configurations are a few kilobytes
_DEEPEST = 32  # containers within containers
_MOST = 100_000  # scalars, lists and mappings


def load_yaml(path: Path) -> dict[str, Any]:
    """Parse a YAML file into a mapping. Nothing in it is run; aliases (which can multiply) and odd keys are refused."""
    import yaml

    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > _LARGEST:
        raise InputError(f"{path} is larger than {_LARGEST >> 20} MiB, so it is no configuration: give the .yaml file")
    try:
        _check_events(yaml.parse(data, Loader=yaml.SafeLoader), path)
        value = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid YAML: {one_line(str(error))}") from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InputError(f"{path} is not a mapping of names to values: give the .yaml file of the model")
    return value


def _check_events(events: Any, path: Path) -> None:
    """Refuse what would make a small file large or deep before any of it is built."""
    import yaml

    depth = 0
    for number, event in enumerate(events):
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"{path} has aliases (*{event.anchor}), which are not read: write the values out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST or number > _MOST:
            raise InputError(f"{path} is nested too deep or has too many values for a configuration")
