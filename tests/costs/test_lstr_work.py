"""What is counted of LSTR and TeSTra is what runs, at every depth and with every switch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.field_models import MODELS
from pipelines.costs.executed import build_model, execute
from pipelines.costs.kinds import COUNTS
from pipelines.costs.model_cost import model_cost
from tests.model.test_lstr import CHANGES, SMALL

# With one sample in the long memory, what leaves was all there was, and every row is computed anew.
COUNTED = [changes for changes in CHANGES if changes.get("long_samples") != 1]


@pytest.mark.parametrize("changes", COUNTED, ids=str)
def test_counted_is_executed(changes: dict[str, Any]) -> None:
    config = replace(SMALL, **changes)
    cost, model = model_cost(config), build_model(config)
    executed = execute(model)
    assert (cost.step.macs, cost.window.macs) == (executed.step.total, executed.window.total)
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert cost.state_bytes == model.initial_state().nbytes
    assert {module.name for module in cost.modules} <= set(COUNTS["lstr"].module_order(config))


@pytest.mark.parametrize(
    ("name", "official", "step"),
    [
        ("MiniROAD", None, 15_751_168),
        ("LSTR", 4_226_308_096, 752_637_952),
        ("TeSTra, box", 4_364_720_128, 749_526_016),
        ("TeSTra, decay 0.97", 4_364_720_128, 749_559_808),
    ],
)
def test_published_sizes(name: str, official: int | None, step: int) -> None:
    cost = model_cost(MODELS[name])
    assert cost.step.macs == step
    assert official is None or cost.window.macs == official
