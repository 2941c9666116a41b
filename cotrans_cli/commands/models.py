"""`cotrans models`: what is built in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotrans_cli.console import note, print_json, result_console
from pipelines.wording import listed

if TYPE_CHECKING:
    from pipelines.checkpoints.builtin import BuiltinModel

EXAMPLES = """
Examples:

  cotrans models

  cotrans stream song.mp3 --model music-genre      use one by its name
"""


WIDTH = 80  # columns: classes are easier to read in short lines
MOST_NAMED = 40  # classes of a model that are listed
_COLUMNS = {"model": "left", "classes": "left", "features": "left", "rows/s": "right", "window": "right"}


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
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name, justify in _COLUMNS.items():
        table.add_column(name, justify=justify, no_wrap=name != "classes")  # type: ignore[arg-type]
    for model in shipped:
        hop = model.features.hop if model.features else None
        table.add_row(
            f"{model.name}\n(default)" if model.name == default else model.name,
            listed(model.class_names, most=MOST_NAMED),
            model.features.name if model.features else "unknown",
            f"{1 / hop:g}" if hop else "",
            f"{model.window * hop:g} s" if hop else f"{model.window} rows",
        )
    console = result_console()
    console.width = min(console.width, WIDTH)
    console.print(table)
    note("use one with `cotrans stream SOURCE --model NAME`; `cotrans info NAME` says more about it")


def _values(model: BuiltinModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "path": str(model.path),
        "size": model.size,
        "class_names": list(model.class_names),
        "features": model.features.to_dict() if model.features else None,
        "window": model.window,
    }
