"""A model that recalls its answers: step = chunk = window, what it weighs, and what it leaves alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipelines.errors import ConfigurationError
from pipelines.model import ContinualTransformer
from pipelines.model.attention.ring import cursor_for
from pipelines.model.transformer.recall import Recall
from tests.model.small import SIZES, relative_error, run_steps, small_model, stream

RECALL = {"classes": 5, "recall": 6, "background": 1}
KINDS: dict[str, dict[str, Any]] = {
    "relative": {"positional": "relative"},
    "recycling": {"positional": "recycling"},
    "deep": {"positional": "rope", "blocks": 2, "stacking": "deep"},
    "class token": {"positional": "none", "class_token_block": 1},
    "no background": {"positional": "relative", "background": None},
}


def recalling(kind: str, dtype: torch.dtype = torch.float64) -> ContinualTransformer:
    return small_model(dtype, norm="pre", **{**RECALL, **KINDS[kind]})


def plainly(model: ContinualTransformer, tokens: Tensor) -> Tensor:
    """Answers (B, T, classes) by the definition: probabilities, shares and a division, one step after the other."""
    rest = small_model(tokens.dtype, **{**vars(model.config), "recall": 0})
    rest.load_state_dict(model.state_dict())
    own = torch.softmax(run_steps(rest, tokens), dim=-1)
    happening = [column for column in range(own.shape[-1]) if column != model.config.background]
    rows = []
    for end in range(1, tokens.shape[1] + 1):
        named = own[:, max(0, end - model.config.recall) : end, happening].sum(dim=1)
        share = named / named.sum(dim=-1, keepdim=True)
        newest = own[:, end - 1].clone()
        weighed = newest[:, happening] * (share + model.config.recall_floor)
        newest[:, happening] = newest[:, happening].sum(-1, keepdim=True) * weighed / weighed.sum(-1, keepdim=True)
        rows.append(newest)
    return torch.stack(rows, dim=1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_gives_what_the_definition_says(kind: str) -> None:
    model, tokens = recalling(kind), stream(2, 25, torch.float64)
    stepped = run_steps(model, tokens)
    torch.testing.assert_close(torch.softmax(stepped, dim=-1), plainly(model, tokens), rtol=1e-10, atol=1e-12)
    with torch.no_grad():
        reach = model.config.receptive_field
        for end in range(1, 26):
            begin = max(0, end - reach)
            assert relative_error(model(tokens[:, begin:end], begin), stepped[:, end - 1]) <= 1e-10
        chunk, _ = model.steps(tokens, model.initial_state(2))
    assert relative_error(chunk, stepped) <= 1e-10


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 30), max_size=5))
def test_any_partition_into_chunks(cuts: list[int]) -> None:
    model, tokens = recalling("relative"), stream(3, 30, torch.float64)
    state, parts = model.initial_state(3), []
    edges = [0, *sorted(cuts), 30]
    with torch.no_grad():
        for begin, end in pairwise(edges):
            logits, state = model.steps(tokens[:, begin:end], state)
            parts.append(logits)
        last, _ = model.step(tokens[:, 0], state)
    again = torch.cat([tokens, tokens[:, :1]], dim=1)
    assert relative_error(torch.cat([*parts, last.unsqueeze(1)], dim=1), run_steps(model, again)) <= 1e-10


def test_streams_at_their_own_places_and_those_that_wait() -> None:
    model, tokens = recalling("relative"), stream(2, 12, torch.float64)
    alone = run_steps(model, tokens[:1])
    state = model.initial_state(2)
    with torch.no_grad():
        for index in range(5):  # the second stream waits
            _, state = model.step(tokens[:, index], state, torch.tensor([True, False]))
        both = torch.stack([tokens[0, 5:7], tokens[0, :2]])
        logits, state = model.steps(both, state)
        assert relative_error(logits[0], alone[0, 5:7]) <= 1e-10
        assert relative_error(logits[1], alone[0, :2]) <= 1e-10
        state = model.reset_(state, [0])
        logits, _ = model.step(tokens[:1, 0].repeat(2, 1), state)
    assert relative_error(logits[:1], alone[:, 0]) <= 1e-10


def test_the_class_of_nothing_keeps_its_probability() -> None:
    model, tokens = recalling("relative"), stream(1, 20, torch.float64)
    plain = small_model(torch.float64, **{**vars(model.config), "recall": 0})
    plain.load_state_dict(model.state_dict())
    before, after = (torch.softmax(run_steps(each, tokens), dim=-1) for each in (plain, model))
    torch.testing.assert_close(after[..., 1], before[..., 1], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(after, before, atol=1e-3)


def test_training_does_not_recall() -> None:
    model, tokens = recalling("relative"), stream(2, 9, torch.float64)
    plain = small_model(torch.float64, **{**vars(model.config), "recall": 0}).train()
    plain.load_state_dict(model.state_dict())
    model.train()
    for tensors in ((tokens,), (tokens[:, :4],)):
        mine, _ = model.steps(*tensors, model.initial_state(2))
        theirs, _ = plain.steps(*tensors, plain.initial_state(2))
        assert torch.equal(mine, theirs)
    assert torch.equal(model(tokens[:, :4]), plain(tokens[:, :4]))


def test_a_snapshot_holds_the_answers(tmp_path: Path) -> None:
    model, tokens = recalling("relative", torch.float32), stream(1, 20)
    whole = run_steps(model, tokens)
    with torch.no_grad():
        _, state = model.steps(tokens[:, :11], model.initial_state(1))
        model.snapshot(state, tmp_path / "state.safetensors")
        logits, _ = model.steps(tokens[:, 11:], model.restore(tmp_path / "state.safetensors"))
    assert relative_error(logits, whole[:, 11:]) <= 1e-5


@pytest.mark.parametrize("rows", [1, 6])
def test_what_was_named_long_ago_leaves_no_rounding_behind(rows: int) -> None:
    """Where nothing happens the shares are of tiny probabilities, whatever a chunk named before."""
    recall = Recall(small_model(**{**RECALL, "recall": rows}).config)
    logits = stream(1, 400)[..., :5].clone()
    logits[:, 200:, 1] += 30
    state, place = recall.empty(1, logits), torch.zeros(1, dtype=torch.long)
    chunk, after = recall.steps(logits, state, place)
    stepped = [recall.step_(logits[:, step], state, cursor_for(place + step, rows, None)) for step in range(400)]
    torch.testing.assert_close(chunk, torch.stack(stepped, dim=1), rtol=1e-6, atol=1e-5)
    assert torch.equal(after.named, state.named)


def test_answers_that_name_nothing_at_all() -> None:
    """Probabilities that vanish in 32 bits leave shares of zero, and finite answers."""
    recall = Recall(recalling("relative", torch.float32).config)
    logits = torch.full((1, 5), -200.0)
    logits[0, 1] = 200.0
    state = recall.empty(1, logits)
    weighed = recall.step_(logits, state, cursor_for(torch.zeros(1, dtype=torch.long), 6, None))
    torch.testing.assert_close(weighed, logits)
    assert not state.named.any()


def test_what_is_refused() -> None:
    for changes, words in (
        ({"recall": -1}, "recall must be at least 0"),
        ({"recall_floor": 0.0}, "recall_floor must be above 0"),
        ({"background": 5}, "background must be one of the classes 0 to 4"),
        ({"classes": 2, "background": 0}, "two that are not background"),
        ({"blocks": 2}, "no banded pass"),
        ({"positional": "static"}, "static positions"),
        ({"lag": 1}, "with lag"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            small_model(**{**RECALL, **changes})
    reach = small_model(**RECALL).config
    assert (reach.receptive_field, reach.context) == (SIZES["window"] + 5, SIZES["window"] - 1)
    assert reach.window_obstacle is not None
