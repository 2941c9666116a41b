"""Counted = executed, for every way in which a model can be put together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipelines.costs.counting import count_macs
from pipelines.costs.executed import build_model, execute, random_tokens, warmed_up
from pipelines.costs.model_cost import model_cost
from pipelines.errors import ConfigurationError
from pipelines.model.base_config import BaseConfig
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.model.presets import PRESETS, preset
from pipelines.model.recurrent_config import RecurrentConfig
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.model import ContinualTransformer
from tests.model.small import small_preset

SMALL = {"input_width": 7, "width": 12, "heads": 3, "feed_forward": 9, "window": 6, "classes": 4}
DECODER = {"decoder_blocks": 2, "decoder_queries": 3, "decoder_heads": 2, "decoder_feed_forward": 10}


@settings(max_examples=60, deadline=None)
@given(
    blocks=st.integers(1, 3),
    window=st.sampled_from([1, 5, 37]),  # 37: two groups of a banded pass
    positional=st.sampled_from(["none", "static", "recycling", "relative", "rope", "alibi"]),
    stacking=st.sampled_from(["exact", "deep"]),
    class_token_block=st.sampled_from([None, 1, 2, 3]),
    lag=st.sampled_from([0, 2]),
    norm=st.sampled_from(["pre", "post"]),
    embedding=st.sampled_from([None, 12, 5]),
    shortcut=st.sampled_from(["none", "concatenate", "add"]),
    bias=st.booleans(),
    decoder=st.booleans(),
)
def test_counted_is_executed(bias: bool, decoder: bool, **settings: object) -> None:
    values = {**SMALL, **settings, "in_projection_bias": bias, **(DECODER if decoder else {})}
    try:
        config = ModelConfig(**values)  # type: ignore[arg-type]
    except ConfigurationError:
        assume(False)
    cost, model = model_cost(config), build_model(config)
    executed = execute(model)
    assert cost.step.macs == executed.step.total
    assert cost.window.macs == executed.window.total
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert cost.state_bytes == model.initial_state().nbytes


@pytest.mark.parametrize("window", [1, 6, 37])
@pytest.mark.parametrize("stacking", ["exact", "deep"])
@pytest.mark.parametrize("class_token_block", [None, 1])
def test_counted_is_executed_where_answers_are_recalled(
    window: int, stacking: str, class_token_block: int | None
) -> None:
    config = ModelConfig(
        **{**SMALL, "window": window, "blocks": 1, "stacking": stacking, "positional": "relative", "recall": 5},  # type: ignore[arg-type]
        class_token_block=class_token_block,
        background=2,
    )
    cost, model = model_cost(config), build_model(config)
    executed = execute(model)
    assert (cost.step.macs, cost.window.macs) == (executed.step.total, executed.window.total)
    assert cost.state_bytes == model.initial_state().nbytes
    assert cost.step.macs == model_cost(replace(config, recall=0)).step.macs


@pytest.mark.parametrize("evidence", [False, True])
@pytest.mark.parametrize(("positional", "blocks"), [("none", 1), ("static", 2), ("relative", 1)])
def test_counted_is_executed_where_rows_are_read(positional: str, blocks: int, evidence: bool) -> None:
    reading: dict[str, Any] = {"blocks": blocks, "positional": positional, "reading": 0.5, "reading_evidence": evidence}
    config = ModelConfig(**{**SMALL, **reading})
    cost, model = model_cost(config), build_model(config)
    executed = execute(model)
    assert (cost.step.macs, cost.window.macs) == (executed.step.total, executed.window.total)
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert cost.state_bytes == model.initial_state().nbytes
    read = cost.step.macs - model_cost(replace(config, reading=0.0, reading_evidence=False)).step.macs
    assert read == config.input_width * (config.classes + int(evidence))


@pytest.mark.parametrize("name", PRESETS)
def test_counted_is_executed_for_every_preset_at_full_window(name: str) -> None:
    config = small_preset(name, input_width=40, embedding=20, width=32, heads=8, feed_forward=32, classes=5)
    cost, executed = model_cost(config), execute(build_model(config))
    assert (cost.step.macs, cost.window.macs) == (executed.step.total, executed.window.total)


@pytest.mark.parametrize(
    "config",
    [
        RecurrentConfig(input_width=7, embedding=5, width=6, layers=1, classes=4, window=3),
        RecurrentConfig(input_width=7, embedding=5, width=6, layers=3, classes=4, window=40),
        PerFrameConfig(input_width=7, classes=4),
        PerFrameConfig(input_width=7, classes=4, embedding=9),
    ],
    ids=lambda config: config.summary(),
)
def test_counted_is_executed_for_other_kinds(config: BaseConfig) -> None:
    cost, model = model_cost(config), build_model(config)
    executed = execute(model)
    assert (cost.step.macs, cost.window.macs) == (executed.step.total, executed.window.total)
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert cost.state_bytes == model.initial_state().nbytes
    assert cost.modules[-1].name == "classifier" and all(module.parameters for module in cost.modules)


def test_miniroad_costs_what_is_published() -> None:
    """15.75 M MACs a frame; a state of one vector."""
    cost = model_cost(preset("miniroad"))
    assert cost.step.macs == 3072 * 2048 + 3 * 1024 * (2048 + 1024) + 1024 * 22 == 15_751_168
    assert cost.state_bytes == 4 * 1024 + 2 * 8  # and two counters


@pytest.mark.parametrize(("name", "macs"), [("cooadtr-b1", 9_590_784), ("cooadtr-b2", 346_579_968)])
def test_the_papers_detection_models_at_full_size(name: str, macs: int) -> None:
    config = preset(name)
    cost, executed = model_cost(config), execute(build_model(config))
    assert cost.step.macs == executed.step.total == macs <= 347_000_000
    assert cost.window.macs == executed.window.total


def test_the_audio_models_at_full_size() -> None:
    for name in ("cotrans-b1", "cotrans-b2"):
        config = preset(name)
        cost, executed = model_cost(config), execute(build_model(config))
        assert (cost.step.macs, cost.window.macs) == (executed.step.total, executed.window.total)


@pytest.mark.parametrize(
    "settings",
    [
        {"positional": "none"},
        {"positional": "none", "class_token_block": 1},
        {"positional": "rope", "class_token_block": None},
        {"positional": "alibi", "class_token_block": None},
        {},
    ],
)
@pytest.mark.parametrize("name", ["oadtr-b2", "oadtr", "oadtr-b1"])
def test_the_shortened_warm_up_is_that_of_real_steps(name: str, settings: dict[str, object]) -> None:
    model = build_model(preset(name, input_width=8, width=16, heads=4, feed_forward=8, window=9, **settings))
    state = model.initial_state()
    with torch.inference_mode():
        for _ in range(9):
            _, state = model.step_(random_tokens(model, 1)[:, 0], state)
    for real, short in zip(state.tensors(), warmed_up(model).tensors(), strict=True):
        torch.testing.assert_close(real, short, rtol=1e-5, atol=1e-5)


def test_large_logits_do_not_change_the_count() -> None:
    """They make retroactive attention compute rows anew, which depends on the data and is not counted."""
    config = preset("cotrans-b2", input_width=8, width=16, heads=1, window=24)
    model = build_model(config)
    with torch.no_grad():
        model.encoder.blocks[0].in_projection.weight.mul_(60)
        state, totals = model.initial_state(), []
        for token in torch.randn(40, 1, 8, generator=torch.Generator().manual_seed(1)):
            totals.append(count_macs(model.step_, token, state).total)
    assert max(totals) > execute(model).step.total == model_cost(config).step.macs


def test_modules_sum_up_and_flops_are_twice_the_macs_and_the_rest() -> None:
    config = replace(preset("oadtr"), **SMALL, positions=None)
    cost = model_cost(config)
    assert sum(module.step.macs for module in cost.modules) == cost.step.macs
    assert cost.step.flops == 2 * cost.step.macs + cost.step.other
    assert all(module.name and (module.parameters or module.window.flops) for module in cost.modules)
    assert cost.reduction == cost.window.macs / cost.step.macs
    names = [module.name for module in cost.modules]
    assert names[:2] == ["input projection", "positions"]
    assert names[-1] == "classifier"
    assert "decoder block 5 cross-attention" in names


def test_elementwise_operations_of_a_small_block_by_hand() -> None:
    """The rule of `work.py`, written out for one single-output block: n = 6, d = 12, 3 heads, feed-forward 9."""
    config = ModelConfig(**SMALL, blocks=1)  # type: ignore[arg-type]
    other = 12 + 12  # bias of the input projection, position
    other += 12 + 5 * 6 * 3  # scaled query, softmax
    other += 12  # residual
    other += 9 + 12 + 9 + 12  # biases of the feed-forward, ReLU, residual
    other += 3 * (7 * 12 + 4)  # norms: two of the block and the final one
    other += 4  # bias of the classifier
    assert model_cost(config).step.other == other


@pytest.mark.parametrize(
    ("positional", "operations"), [("relative", 6 * 3), ("alibi", 6 * 3), ("rope", 2 * 3 * 12), ("recycling", 12)]
)
def test_what_positions_cost_by_hand(positional: str, operations: int) -> None:
    """A bias for each score, a turn of query and key, or a token's encoding: no matrix product."""
    without, with_positions = (
        model_cost(ModelConfig(**SMALL, blocks=1, positional=kind)).step  # type: ignore[arg-type]
        for kind in ("none", positional)
    )
    assert with_positions.other - without.other == operations
    assert with_positions.macs == without.macs


def test_a_model_of_a_checkpoint_in_double_precision_is_counted_too() -> None:
    model = ContinualTransformer(preset("cotrans-b2", input_width=8, width=16, heads=4, window=6)).double().eval()
    assert execute(model).step.total == model_cost(model.config).step.macs
