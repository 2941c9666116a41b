"""`--help` that reads like a manual page at 80 columns: paragraphs in one piece, examples with their remarks below."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer

from cotrans_cli.arguments.argument_check import CheckedCommand, CheckedGroup
from cotrans_cli.arguments.completion import complete_values, list_values

WIDTH = 78  # 80 columns, less the margins of the help page
PROGRAMS = ("cotrans ", "torchrun ")
# What stands for the value of an option that does not say it itself.
VALUES = {"int": "N", "integer": "N", "float": "NUMBER", "str": "TEXT", "text": "TEXT", "path": "PATH"}


class _Command(CheckedCommand):
    """A command whose help names values as manual pages do, and not the types of Python."""

    def get_params(self, ctx: Any) -> Any:
        parameters = _worded(super().get_params(ctx), ctx)
        complete_values(ctx.command_path.partition(" ")[2], parameters)
        return parameters

    def format_help(self, ctx: Any, formatter: Any) -> None:
        list_values(ctx.command_path.partition(" ")[2], self.get_params(ctx))
        super().format_help(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`[OPTIONS] SOURCE...`; what may be left out stands in brackets."""
        arguments = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument"]
        names = [f"{argument.metavar}{'...' if argument.nargs != 1 else ''}" for argument in arguments]
        shown = [name if argument.required else f"[{name}]" for argument, name in zip(arguments, names, strict=True)]
        return ["[OPTIONS]", *shown]


class _Group(CheckedGroup):
    def get_params(self, ctx: Any) -> Any:
        return _worded(super().get_params(ctx), ctx)


def _worded(parameters: Any, context: Any) -> Any:
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            # Typer would add "<list[str]>" and the like.
            parameter.display_type_rich = lambda ctx: ""
            parameter.metavar = (parameter.metavar or parameter.name.upper()).removesuffix("...")
        elif getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.metavar is None:
            parameter.metavar = _value(parameter, context)
    return parameters


def _value(parameter: Any, context: Any) -> str | None:
    """A word for the value of an option; None: what typer makes of it."""
    shown = parameter.display_type(context) if hasattr(parameter, "display_type") else parameter.type.name
    bare = shown.strip("<>")
    return VALUES.get(bare, bare if "|" in bare else None)


def tidy(app: typer.Typer) -> None:
    """Prepare docstrings and examples of all commands of `app` for display."""
    app.info.cls = _Group
    for command in app.registered_commands:
        command.cls = _Command
        text = command.help or (command.callback and command.callback.__doc__) or ""
        command.help = joined(text)
        if command.epilog:
            command.epilog = examples(command.epilog)
    for group in app.registered_groups:
        group.cls = _Group
        if group.typer_instance:
            tidy(group.typer_instance)


def joined(text: str) -> str:
    """Every paragraph on one line: rich breaks lines itself, and keeps those that the source has."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))


def examples(text: str) -> str:
    """One paragraph for each example: its remark, then the command, in lines that fit.

    In `text` a blank line ends an example; two or more spaces stand between command and remark.
    """
    return "\n\n".join(_paragraphs(text))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        command, *remark = re.split(r" {2,}", re.sub(r"\s*\n\s*", " ", paragraph.strip()), maxsplit=1)
        command = command.replace("[", r"\[")  # not markup
        if not command.startswith(PROGRAMS):
            yield f"[bold]{command}[/bold]"
            continue
        lines = list(_broken(command))
        if remark:
            lines.insert(0, f"[dim]# {remark[0]}[/dim]")
        yield "\n".join(lines)


def _broken(command: str) -> Iterator[str]:
    """The command in lines that a shell takes as one; options stay with their values."""
    pieces = re.split(r" (?=-)", command)
    line = pieces[0]
    for piece in pieces[1:]:
        if len(line) + len(piece) + 3 > WIDTH:
            yield f"{line} \\"
            line = f"  {piece}"
        else:
            line = f"{line} {piece}"
    yield line
