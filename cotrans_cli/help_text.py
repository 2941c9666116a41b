"""`--help` that reads well at 80 columns: paragraphs in one piece, examples with their remarks below."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import typer

WIDTH = 78  # 80 columns, less the margins of the help page
PROGRAMS = ("cotrans ", "torchrun ")


def tidy(app: typer.Typer) -> None:
    """Prepare docstrings and examples of all commands of `app` for display."""
    for command in app.registered_commands:
        text = command.help or (command.callback and command.callback.__doc__) or ""
        command.help = joined(text)
        if command.epilog:
            command.epilog = examples(command.epilog)
    for group in app.registered_groups:
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
