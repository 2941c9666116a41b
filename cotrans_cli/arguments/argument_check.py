"""What is wrong with arguments whatever the command is, in the words of all other errors of cotrans."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from pipelines.files import is_file
from pipelines.wording import nearest

MAY_BE_EMPTY = {"prefix"}  # of `convert`: the keys of an encoder may begin with their own names
NUMBERS: dict[type, str] = {int: "a whole number", float: "a number"}


class WrongArgument(typer.BadParameter):
    """A mistake in our own words, to which click adds none."""

    def format_message(self) -> str:
        return self.message


class CheckedCommand(TyperCommand):
    """A command that refuses what would otherwise be taken silently, or be said in other words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # not while a shell asks for completions
            _check_dashes(ctx, args)
            self._check(ctx, list(args))
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            raise self._worded(ctx, given, error) from error

    def _check(self, ctx: Any, args: list[str]) -> None:
        values, _, order = self._parsed(ctx, args)
        counts = Counter(parameter.name for parameter in order)
        for parameter in order:
            is_argument = parameter.param_type_name == "argument"
            # "$UNSET" of a script; as a path it would be the current folder
            if "" in _texts(values.get(parameter.name)) and parameter.name not in MAY_BE_EMPTY:
                name = (parameter.metavar or parameter.name.upper()).removesuffix("...")
                name, advice = (name, "name something") if is_argument else (parameter.opts[0], "give a value")
                raise WrongArgument(f"{name} is empty: {advice}", ctx=ctx)
            if is_argument:
                continue
            if counts[parameter.name] > 1 and not (parameter.multiple or parameter.is_flag or parameter.count):
                joined = parameter.metavar is not None and "," in parameter.metavar
                advice = "give it once, with commas between names" if joined else "give it once"
                raise WrongArgument(f"{parameter.opts[0]} is given {counts[parameter.name]} times: {advice}", ctx=ctx)

    def _worded(self, ctx: Any, args: list[str], error: typer.BadParameter) -> typer.BadParameter:
        """What is wrong with a word or a number, by the type that the command declares for it."""
        parameter: Any = error.param
        if isinstance(error, WrongArgument) or parameter is None or self.callback is None:
            return error
        declared = inspect.signature(self.callback, eval_str=True).parameters.get(parameter.name)
        option = next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])
        for kind in _kinds(declared.annotation if declared is not None else None):
            for text in _texts(self._parsed(ctx, args)[0].get(parameter.name)):
                if issubclass(kind, Enum) and text not in (words := [choice.value for choice in kind]):
                    return WrongArgument(f"unknown {option} '{text}': choose from {', '.join(words)}", ctx=ctx)
                if kind in NUMBERS and not _makes(kind, text):
                    return WrongArgument(f"{option} must be {NUMBERS[kind]}", ctx=ctx)
        return error

    def _parsed(self, ctx: Any, args: list[str]) -> Any:
        """Texts by parameter, what is left over, and the parameters in their order."""
        return self.make_parser(ctx).parse_args(args=list(args))


class CheckedGroup(TyperGroup):
    """A group of commands that says which one was meant, and by which signal it was ended."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _signals_kept():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _signals_kept():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            near = nearest(name, self.list_commands(ctx))
            advice = f" Did you mean '{near}'?" if near else ""
            raise WrongArgument(f"No such command '{name}'.{advice}", ctx=ctx)
        return super().resolve_command(ctx, args)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """An interrupt as an abort with its cause: newer versions of typer make a plain exit with code 130 of any."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise typer.Abort from stop


def _check_dashes(ctx: Any, args: list[str]) -> None:
    """A file whose name begins with a dash reads like options, and the error would be about letters of its name."""
    options = args[: args.index("--")] if "--" in args else args
    for text in options:
        if text.startswith("-") and "." in text and is_file(Path(text)):
            raise WrongArgument(f"{text} reads like options: write ./{text} for the file", ctx=ctx)


def _kinds(annotation: Any) -> Iterator[type]:
    """The classes that an annotation is made of: of `Annotated[list[Mode] | None, …]`, Mode and NoneType."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for part in get_args(annotation):
        yield from _kinds(part)


def _makes(kind: type, text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)
