"""What the cards of the built-in models say of the files beside them is true: classes, features, window, parameters."""

from __future__ import annotations

import re

import pytest

from pipelines.checkpoints.builtin import builtin_models
from pipelines.checkpoints.checkpoint import load_checkpoint

MOST_NAMED = 12  # classes: a card that would have to name more says how many there are
MODELS = {model.name: model for model in builtin_models()}


@pytest.mark.parametrize("name", MODELS)
def test_a_card_tells_what_the_file_is(name: str) -> None:
    model = MODELS[name]
    text = model.path.with_suffix(".md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([a-z ]+) \| (.+) \|$", text, re.MULTILINE))
    assert model.features is not None
    for part in model.features.parts:
        assert f"`{part.name}`" in text
    named = [label for label in model.class_names if not label.isdecimal()]
    if len(named) <= MOST_NAMED:
        assert all(label in rows["says"] for label in named)
    else:
        assert f"{len(model.class_names)} classes" in rows["says"]
    parameters = sum(tensor.numel() for tensor in load_checkpoint(model.path).model.parameters())
    assert f"{parameters:,} parameters" in rows["model"]
    if model.window > 1:
        assert f"window {model.window}" in rows["model"]
    assert {"says", "model", "trained on", "made by", "score", "licence"} <= rows.keys()
