"""The options that say which dataset, shared by `train`, `evaluate` and `data inspect`.

Those that only some datasets have are declared in `pipelines.datasets.options`; `with_dataset_options` makes flags of
them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cotrans_cli.arguments.options import option
from pipelines.datasets.opening import MODULES
from pipelines.datasets.options import DATASET_OPTIONS, DatasetOption
from pipelines.untrusted.toml import parse_pairs
from pipelines.wording import alternatives

DATA = "Data"  # the panel of the help page
_NAMES = f"{alternatives([*MODULES])}."
OWN_DATA = "folder"
Folder = Annotated[
    Path | None,
    typer.Argument(metavar="FOLDER", help="Your own clips or recordings (or the folder of --dataset, as --root)."),
]
MaybeName = Annotated[str | None, option("--dataset", panel=DATA, help=_NAMES)]
Root = Annotated[Path | None, option("--root", panel=DATA, help="The dataset's folder (default: COTRANS_DATA).")]
FeatureOption = Annotated[
    list[str] | None,
    option("--feature-option", panel=DATA, metavar="KEY=VALUE", help="Option of an extractor (output=tags)."),
]
Cache = Annotated[Path | None, option("--cache", panel=DATA, help="Where extracted features are kept.")]
# The parameter of a command that stands for the options of datasets: those that were given, as a recipe has them.
Given = dict[str, Any]
_MORE = inspect.Parameter(
    "data",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        list[str] | None,
        option("--data", panel=DATA, metavar="KEY=VALUE", help="The same as a recipe writes it: split_seed=3."),
    ],
)


def named_data(folder: Path | None, dataset: str | None, root: Path | None) -> tuple[str | None, Path | None]:
    """The dataset and its root: a folder that is named alone holds data of one's own."""
    if folder is not None and root is not None:
        raise typer.BadParameter("the folder is given twice: as an argument and with --root")
    return dataset or (None if folder is None else OWN_DATA), folder or root


def with_dataset_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`command` with a flag for every option of a dataset, in the place of its parameter `dataset_options`."""
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name == "dataset_options":
            parameters += [*map(_parameter, DATASET_OPTIONS), _MORE]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        given = {each.name: _recipe_value(values.pop(each.name)) for each in DATASET_OPTIONS}
        given |= parse_pairs(values.pop("data") or [], "--data")
        chosen = {name: value for name, value in given.items() if value is not None}
        return command(**values, dataset_options=chosen)

    # What typer reads: it looks at no other part of the function.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(declared: DatasetOption) -> inspect.Parameter:
    value = declared.kind.flag
    flag = option(declared.flag, panel=DATA, help=declared.help, least=declared.least)
    kind: Any = Annotated[bool, flag] if value is bool else Annotated[value | None, flag]
    default = False if value is bool else None
    return inspect.Parameter(declared.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _recipe_value(value: Any) -> Any:
    """As TOML has it; a switch that is off was not given."""
    if value is False:
        return None
    return str(value) if isinstance(value, Path) else value
