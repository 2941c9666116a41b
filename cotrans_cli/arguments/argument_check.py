"""What is wrong with arguments whatever the command is: an option that is given twice, a name that is empty."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand


class CheckedCommand(TyperCommand):
    """A command that refuses what would otherwise be taken silently."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # not while a shell asks for completions
            self._check(ctx, list(args))
        return super().parse_args(ctx, args)

    def _check(self, ctx: Any, args: list[str]) -> None:
        parsed: Any = self.make_parser(ctx).parse_args(args=args)
        values, _, order = parsed
        counts = Counter(parameter.name for parameter in order)
        for parameter in order:
            if parameter.param_type_name == "argument":
                given = values.get(parameter.name)
                if given == "" or (isinstance(given, (list, tuple)) and "" in given):
                    name = (parameter.metavar or parameter.name.upper()).removesuffix("...")
                    raise typer.BadParameter(f"{name} is empty: name something", ctx=ctx)
            elif counts[parameter.name] > 1 and not (parameter.multiple or parameter.is_flag or parameter.count):
                joined = parameter.metavar is not None and "," in parameter.metavar
                advice = "give it once, with commas between names" if joined else "give it once"
                raise typer.BadParameter(
                    f"{parameter.opts[0]} is given {counts[parameter.name]} times: {advice}", ctx=ctx
                )
