"""Options that several commands have, and how they are declared.

What says which dataset is in `dataset_options`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

Number = TypeVar("Number", int | None, float | None)
# The panel of what `convert` and `flops` must be told about files of other projects.
UNSAID = "What a file of another project does not say"


def option(
    *names: str, help: str, panel: str | None = None, metavar: str | None = None, least: float | None = None
) -> Any:
    """An option in a panel of the help page; least: the smallest number that it takes."""
    # Typer's own `min` would make a column of ranges in the help page, at the cost of everything beside it.
    check = None if least is None else at_least(least)
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel, callback=check)


def precision_option(panel: str | None = None) -> Any:
    """`--precision`, of everything that runs a model."""
    return option("--precision", panel=panel, help="Of the model's weights: float16 and int8 are faster on a CPU.")


def at_least(least: float) -> Callable[[Number], Number]:
    """A check for the value of an option."""

    def check(value: Number) -> Number:
        if value is not None and value < least:
            raise typer.BadParameter(f"must be at least {least:g}, not {value:g}")
        return value

    return check


Prefix = Annotated[
    str | None, option("--prefix", panel=UNSAID, help="Take the encoder whose keys begin so: 'encoder.'.")
]
InputLayer = Annotated[
    str | None, option("--input-layer", panel=UNSAID, help="Module that projects the input, if it is not clear.")
]
Classifier = Annotated[
    str | None, option("--classifier", panel=UNSAID, help="Module that makes the scores, if it is not clear.")
]
