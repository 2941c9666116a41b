"""Parsers that are not ours, given bytes that nobody vouches for: whatever they raise is one error of ours."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pipelines.errors import CotransError, InputError
from pipelines.wording import one_line

Choice = TypeVar("Choice", bound=str)
LARGEST_INTEGER = 1 << 64  # what no number in a file of ours, or of anybody whose files we read, comes near


@contextmanager
def parsing(refuse: Callable[[str], CotransError]) -> Iterator[None]:
    """Turn what a parser raises into `refuse(reason)`.

    Parsers promise nothing about damaged files: numpy's answers with TokenError, OverflowError or SyntaxError,
    PyTorch's with AssertionError or struct.error. So every exception counts, MemoryError and RecursionError too.
    """
    try:
        yield
    except CotransError:
        raise
    except Exception as error:
        raise refuse(reason(error)) from error


def reason(error: BaseException) -> str:
    """What a parser says, on one line, or what kind of error it was."""
    said = getattr(error, "strerror", None) or str(error)
    return one_line(said) or type(error).__name__


def choice_of(text: object, known: Sequence[Choice]) -> Choice:
    """The one of the known words that a text is; ValueError where it is none of them."""
    for choice in known:
        if choice == text:
            return choice
    raise ValueError(f"'{one_line(str(text))}' is none of {', '.join(known)}")


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Refuse, with ValueError, values of JSON that are not of the types that the fields of a dataclass have."""
    hints = get_type_hints(kind)
    for name, value in values.items():
        if name not in hints:
            raise ValueError(f"there is no '{one_line(name)}'")
        if not _fits(value, hints[name]):
            raise ValueError(f"'{name}' is of another type")


def _fits(value: Any, hint: Any) -> bool:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return isinstance(value, str | int | float | list | None)
    if origin is Literal:
        return value in parts if isinstance(value, str | int | None) else False
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(member, parts[0]) for member in value)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(_fits(member, parts[1]) for member in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, str if hint is Path else hint)


_LINES = json.JSONEncoder(ensure_ascii=False, allow_nan=False)  # made anew, it takes as long as a short line


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON that a terminal shows as it is: what is no letter or sign is written as \\uXXXX."""
    lines = _LINES if indent is None else json.JSONEncoder(indent=indent, ensure_ascii=False, allow_nan=False)
    text = lines.encode(value)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1] for letter in text)


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError for all that is wrong with it.

    Numbers that fit no machine are refused here, so that nobody after this has to expect them.
    """
    try:
        return json.loads(text, parse_int=_machine_integer)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def read_document(path: Path, format: str, version: int, what: str) -> dict[str, Any]:
    """The JSON object in a file of ours, which says its `format` and `version`. what: for a message ("a part …")."""
    try:
        value = json_value(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path} is not {what}: it is no JSON ({one_line(str(error))})") from error
    if not isinstance(value, dict) or value.get("format") != format:
        raise InputError(f"{path} is not {what}")
    if value.get("version") != version:
        raise InputError(f"{path} has version {value.get('version')}; this cotrans reads version {version}")
    return value


def require_machine_numbers(value: Any) -> None:
    """Refuse, with ValueError, integers that fit no machine, wherever they stand in lists and dictionaries."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, int) and abs(part) > LARGEST_INTEGER:
            raise ValueError(f"an integer of {part.bit_length()} bits")


def _machine_integer(digits: str) -> int:
    value = int(digits)
    require_machine_numbers(value)
    return value
