"""`cotrans models`: what is built in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotrans_cli.display.columns import room, wrapped
from cotrans_cli.display.console import note, print_json, print_line
from pipelines.wording import listed

if TYPE_CHECKING:
    from pipelines.checkpoints.builtin import BuiltinModel

EXAMPLES = """
Examples:

  cotrans models

  cotrans stream song.mp3 --model music-genre      use one by its name
"""


WIDTH = 80  # columns: classes are easier to read in short lines
MOST_NAMED = 12  # classes of a model that are listed


def models(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the models that ship with cotrans: their classes, features and window."""
    from pipelines.checkpoints.builtin import builtin_models
    from pipelines.settings import DEFAULT_MODEL, load_settings

    shipped = builtin_models()
    default = load_settings().default_model or DEFAULT_MODEL
    if json:
        print_json([{**_values(model), "default": model.name == default} for model in shipped])
        return
    if not shipped:
        note("no model is built into this copy of cotrans")
        return
    for model in shipped:
        print_line(f"{model.name}{' (default)' if model.name == default else ''}: {_facts(model)}")
        for line in wrapped(listed(model.class_names, most=MOST_NAMED), indent="    ", available=min(room(), WIDTH)):
            print_line(line)
    note("use one with `cotrans stream SOURCE --model NAME`; `cotrans info NAME` says more about it")


def _facts(model: BuiltinModel) -> str:
    """What it takes, how often, and how far back it looks."""
    if model.features is None:
        return f"{model.window} rows"
    hop = model.features.hop
    memory = f"remembers {model.window * hop:.3g} s" if model.window > 1 else "no memory of its own"
    return f"{model.features.name}, {1 / hop:.3g} rows a second, {memory}"


def _values(model: BuiltinModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "path": str(model.path),
        "size": model.size,
        "class_names": list(model.class_names),
        "features": model.features.to_dict() if model.features else None,
        "window": model.window,
    }
