"""Opening a dataset by its name."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.datasets.dataset import Dataset
from pipelines.datasets.options import OPTIONS_BY_NAME
from pipelines.errors import InputError, UsageError
from pipelines.wording import did_you_mean

# Name on the command line -> module with `open(root, **options) -> Dataset` and the text `OBTAIN`. `SAMPLE`, where
# there is one, is a folder with a small part that ships with cotrans: it is opened when nobody names another.
MODULES = {
    "gtzan": "pipelines.datasets.published.gtzan",
    "thumos14": "pipelines.datasets.published.thumos14",
    "tvseries": "pipelines.datasets.published.tvseries",
    "folder": "pipelines.datasets.own.folder",
    "digits": "pipelines.datasets.published.digit_streams",
    "golf": "pipelines.datasets.published.golf",
}
ROOT_VARIABLE = "COTRANS_DATA"  # the folder that holds datasets, or one dataset


def open_dataset(name: str, root: str | Path | None = None, **options: Any) -> Dataset:
    """The dataset `name` in folder `root`.

    Without `root`, the environment variable COTRANS_DATA names it, or the folder that contains a folder
    `name`. Options that are None are left at their defaults; an option that the dataset does not have is an
    error. Values may be what a recipe or a command line has for them: 1 for the group "1", "rgb,flow" for a list.
    """
    module = _module(name)
    opener: Callable[..., Dataset] = module.open
    given = {key: value for key, value in options.items() if value is not None}
    known = dataset_options(name)
    for key in given:
        if key not in known:
            flags = ", ".join(OPTIONS_BY_NAME[option].flag for option in known)
            raise UsageError(f"dataset {name} has no option --{key.replace('_', '-')}; it has {flags}")
    typed = {key: OPTIONS_BY_NAME[key].typed(value) for key, value in given.items()}
    return opener(resolve_root(name, None if root is None else Path(root)), **typed)


def dataset_options(name: str) -> dict[str, Any]:
    """The options of a dataset and their defaults."""
    parameters = inspect.signature(_module(name).open).parameters
    return {key: parameter.default for key, parameter in parameters.items() if key != "root"}


def resolve_root(name: str, root: Path | None) -> Path:
    """The folder of a dataset; when it is not there, an error says what belongs there and how to get it."""
    obtain: str = _module(name).OBTAIN
    if root is None:
        variable = os.environ.get(ROOT_VARIABLE)
        if not variable and (sample := getattr(_module(name), "SAMPLE", None)) is not None:
            return Path(sample)
        if not variable:
            raise UsageError(f"dataset {name}: give its folder with --root (or set {ROOT_VARIABLE}). {obtain}")
        root = Path(variable)
        root = root / name if (root / name).is_dir() else root
    root = root.expanduser()
    if not root.exists():
        raise InputError(f"dataset {name}: the folder {root} does not exist. {obtain}")
    if not root.is_dir():
        raise InputError(f"dataset {name}: {root} is a file, not a folder. {obtain}")
    return root


def check_dataset_name(name: str) -> None:
    """Refuse a dataset that there is not."""
    if name not in MODULES:
        raise UsageError(f"there is no dataset '{name}'{did_you_mean(name, MODULES)} (datasets: {', '.join(MODULES)})")


def _module(name: str) -> Any:
    check_dataset_name(name)
    return importlib.import_module(MODULES[name])
