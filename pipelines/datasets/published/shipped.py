"""Lists of classes and splits that ship with cotrans."""

from __future__ import annotations

import json
from importlib import resources


def shipped_list(name: str) -> dict[str, list[str]]:
    """The lists in `data/NAME.json`, by their names."""
    text = (resources.files("pipelines.datasets.published") / "data" / f"{name}.json").read_text(encoding="utf-8")
    lists: dict[str, list[str]] = json.loads(text)
    return lists
