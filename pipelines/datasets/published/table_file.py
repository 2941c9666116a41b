"""The CSV tables of published datasets, which must have the columns that their authors gave them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import InputError


def read_table(path: Path, columns: Sequence[str], whose: str, advice: str = "") -> list[dict[str, str]]:
    """The rows, with these columns alone; what a row lacks is empty. whose: the dataset; advice: where to get it."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [name for name in columns if name not in (reader.fieldnames or [])]
            if missing:
                named = ", ".join(missing)
                raise InputError(f"{path} has no column {named}: it is not the table of {whose}{advice}")
            return [{name: row[name] or "" for name in columns} for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{whose}: cannot read {path}: {error}{advice}") from error
