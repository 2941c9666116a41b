"""Words for what was typed wrongly: typer's own, made to read like all other errors of cotrans."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pipelines.wording import nearest

_CHOICE = re.compile(r"Invalid value for '([^']+)':(?: Value error,)? '(.*)' is not one of (.+?)\.?$")
_NUMBER = re.compile(r"Invalid value for '([^']+)':.*valid (integer|number|float)")
_NAMES = {"integer": "a whole number", "number": "a number", "float": "a number"}


def usage_message(message: str, commands: Iterable[str]) -> str:
    """One line. commands: the names that a mistyped command may have meant."""
    message = " ".join(message.split())
    if match := _CHOICE.match(message):
        choices = ", ".join(re.findall(r"'([^']*)'", match[3]))
        return f"unknown {_option(match[1])} '{match[2]}': choose from {choices}"
    if match := _NUMBER.match(message):
        return f"{_option(match[1])} must be {_NAMES[match[2]]}"
    if "No such command" in message and "Did you mean" not in message:
        near = nearest(message.split("'")[1], commands)
        return f"{message} Did you mean '{near}'?" if near else message
    return message


def _option(names: str) -> str:
    """The long name out of "--out / -o"."""
    return next((name for name in names.split(" / ") if name.startswith("--")), names)
