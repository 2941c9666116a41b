"""Which options stand on a command line: nothing is accepted and ignored."""

from __future__ import annotations

from collections.abc import Collection

import typer


def refuse_others(context: typer.Context, useful: Collection[str], because: str) -> None:
    """Refuse what was given and has no use here; useful: parameters of the command that have one."""
    from pipelines.errors import UsageError

    given = [
        parameter.opts[0] if parameter.param_type_name == "option" else str(parameter.metavar)
        for parameter in context.command.params
        if parameter.name not in useful
        and (source := context.get_parameter_source(str(parameter.name))) is not None
        and source.name == "COMMANDLINE"
    ]
    if given:
        raise UsageError(f"{because}: leave {', '.join(given)} out")
