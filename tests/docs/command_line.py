"""The commands of the command line, without running them."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer

from cotrans_cli.main import app


@cache
def root_command() -> Any:
    """Click's group of everything."""
    return typer.main.get_command(app)


@cache
def all_commands() -> dict[str, Any]:
    """Click's commands by their words: "stream", "weights get", …"""
    return dict(_leaves(root_command(), ()))


def _leaves(command: Any, words: tuple[str, ...]) -> list[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        return [(" ".join(words), command)]
    return [leaf for name, inner in command.commands.items() for leaf in _leaves(inner, (*words, name))]


@cache
def option_names(command: Any) -> set[str]:
    """Every spelling of its options, `--help` among them."""
    spellings = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return {name for name in spellings if name.startswith("-")} | {"--help", "-h"}


def parse_arguments(words: list[str]) -> None:
    """Raise click's usage error unless the words are a command with its options and arguments."""
    command = root_command()
    while hasattr(command, "commands"):
        if words and words[0] in option_names(command):
            return
        assert words and words[0] in command.commands, f"no command '{words[0] if words else ''}'"
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, list(words))
