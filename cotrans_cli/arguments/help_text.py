"""`--help` that reads like a manual page at 80 columns: paragraphs in one piece, examples with their remarks below."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Iterator
from typing import Any

import typer

from cotrans_cli.arguments.argument_check import CheckedCommand, CheckedGroup
from cotrans_cli.arguments.completion import complete_values, list_values
from cotrans_cli.display.console import REMARK

WIDTH = 80  # columns for which examples are written
MARGINS = 2  # columns of the help page
# Columns from which on the values of options, and --no-this-or-that, have a column of their own.
ROOM_FOR_VALUES, ROOM_FOR_OPPOSITES = 80, 100
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
        _in_fewer_columns(self.get_params(ctx), shutil.get_terminal_size().columns)
        _style_pages()
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

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _style_pages()
        super().format_help(ctx, formatter)


def _in_fewer_columns(parameters: Any, width: int) -> None:
    """Put what stands for an option's value before its help, and its opposite behind: columns of theirs cut words."""
    for parameter in parameters:
        if width < ROOM_FOR_VALUES and parameter.param_type_name == "option" and parameter.metavar:
            value = parameter.metavar.replace("[", r"\[")  # not markup
            parameter.help, parameter.metavar = f"[bold]{value}[/bold]  {parameter.help or ''}", ""
        if width < ROOM_FOR_OPPOSITES and parameter.secondary_opts:
            parameter.help = f"{parameter.help or ''} Or: {', '.join(parameter.secondary_opts)}"
            if parameter.show_default is True and isinstance(parameter.default, bool):  # typer would say True
                parameter.show_default = (parameter.opts if parameter.default else parameter.secondary_opts)[0][2:]
            parameter.secondary_opts = []


def _style_pages() -> None:
    """Another colour for what typer shows in the terminal's yellow, which nobody reads on white, and smaller gaps."""
    from typer import rich_utils

    gap = 2 if shutil.get_terminal_size().columns >= ROOM_FOR_VALUES else 1
    setattr(rich_utils, "STYLE_OPTIONS_TABLE_PADDING", (0, gap, 0, 0))  # noqa: B010 - typer's type is that of its own
    for name in ("STYLE_TYPES", "STYLE_METAVAR", "STYLE_USAGE"):  # the first two are one, by the version of typer
        if hasattr(rich_utils, name):
            setattr(rich_utils, name, f"bold {REMARK}")


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
    width = min(WIDTH, shutil.get_terminal_size().columns) - MARGINS
    pieces = re.split(r" (?=-)", command)
    line = pieces[0]
    for piece in pieces[1:]:
        if len(line) + len(piece) + 3 > width:
            yield f"{line} \\"
            line = f"  {piece}"
        else:
            line = f"{line} {piece}"
    yield line
