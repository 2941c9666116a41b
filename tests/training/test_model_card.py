"""What the card of a run says of the data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.training.model_card import model_card


@pytest.mark.parametrize(
    ("copies", "said"),
    [
        (0, "2 recordings to train on, 1 recording to validate on"),
        (1, "2 recordings to train on (and 1 changed copy of them), 1 recording to validate on"),
        (2, "2 recordings to train on (and 2 changed copies of them), 1 recording to validate on"),
    ],
)
def test_changed_copies_are_no_recordings(copies: int, said: str) -> None:
    own = [SimpleNamespace(name=name, copy_of=None) for name in ("a", "b", "v")]
    made = [SimpleNamespace(name=f"{item.name}, copy 1", copy_of=item.name) for item in own[:copies]]
    root = SimpleNamespace(name="clips")
    dataset = SimpleNamespace(items=[*own, *made], class_names=("x", "y"), root=root, name="folder")
    data: Any = SimpleNamespace(dataset=dataset, train=[*own[:2], *made], validation=own[2:], spec=None, width=3)
    config: Any = SimpleNamespace(window=4)
    assert said in model_card(data, config, None, None, None, ["cotrans train clips"])
