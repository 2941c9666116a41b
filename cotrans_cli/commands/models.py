"""`cotrans models`: what is built in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cotrans_cli.console import note, print_json, result_console

if TYPE_CHECKING:
    from pipelines.checkpoints.builtin import BuiltinModel

EXAMPLES = """
Examples:

  cotrans models

  cotrans stream song.mp3 --model music-genre      use one by its name
"""


def models(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the models that ship with cotrans: their classes, features and window."""
    from pipelines.checkpoints.builtin import builtin_models
    from pipelines.settings import load_settings

    found = builtin_models()
    default = load_settings().default_model
    if json:
        print_json([{**_values(model), "default": model.name == default} for model in found])
        return
    if not found:
        note("no model is built into this copy of cotrans")
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name, justify in (("model", "left"), ("classes", "left"), ("features", "left"), ("window", "right")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for model in found:
        header = model.header
        hop = header.features.hop if header.features else None
        window = f"{header.config.window * hop:g} s" if hop else f"{header.config.window} rows"
        mark = " (default)" if model.name == default else ""
        features = f"{header.features.name}, {1 / hop:g} rows/s" if header.features and hop else "unknown"
        table.add_row(f"{model.name}{mark}", ", ".join(header.class_names), features, window)
    result_console().print(table)
    note("use one with `cotrans stream SOURCE --model NAME`; `cotrans info FILE` says more about a checkpoint")


def _values(model: BuiltinModel) -> dict[str, Any]:
    header = model.header
    return {
        "name": model.name,
        "path": str(model.path),
        "size": model.size,
        "class_names": list(header.class_names),
        "features": header.features.to_dict() if header.features else None,
        "window": header.config.window,
    }
