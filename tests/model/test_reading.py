"""A model that also reads every row by itself: step = chunk = window, what is averaged, and what training does."""

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
from tests.model.small import check_rows_are_independent, relative_error, run_steps, run_windows, small_model, stream

KINDS: dict[str, dict[str, Any]] = {
    "none": {"positional": "none"},
    "relative": {"positional": "relative"},
    "static": {"positional": "static"},
    "recycling, two blocks": {"positional": "recycling", "blocks": 2},
    "class token": {"positional": "none", "class_token_block": 1},
    "embedding, shortcut": {"positional": "none", "embedding": 5, "shortcut": "concatenate"},
    "evidence": {"positional": "none", "reading_evidence": True},
    "evidence, two blocks": {"positional": "recycling", "blocks": 2, "reading_evidence": True},
}

NOT_READING: dict[str, Any] = {"reading": 0.0, "reading_evidence": False}
DECODER = {"decoder_blocks": 1, "decoder_queries": 1, "decoder_heads": 1, "decoder_feed_forward": 4}


def reading(kind: str, dtype: torch.dtype = torch.float64, **changes: Any) -> ContinualTransformer:
    return small_model(dtype, **{"reading": 0.7, **KINDS[kind], **changes})


def plainly(model: ContinualTransformer, tokens: Tensor) -> Tensor:
    """Answers (B, T, classes) by the definition: the linear layer on the mean of each window."""
    rest = small_model(tokens.dtype, **{**vars(model.config), **NOT_READING})
    rest.load_state_dict({name: value for name, value in model.state_dict().items() if "reading" not in name})
    encoded, share, window = run_steps(rest, tokens), model.config.reading, model.config.window
    ends = range(1, tokens.shape[1] + 1)
    means = torch.stack([tokens[:, max(0, end - window) : end].mean(dim=1) for end in ends], dim=1)
    assert model.reading is not None
    with torch.no_grad():
        answers = model.reading.linear(means)
        read = torch.log_softmax(answers[..., : model.config.classes], dim=-1)
        joined = torch.log_softmax((1 - share) * encoded + share * read, dim=-1)
        # As much evidence for any class as the encoder has, and what is read beside the classes.
        return joined + encoded.logsumexp(dim=-1, keepdim=True) + answers[..., model.config.classes :].sum(-1, True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_way_gives_what_the_definition_says(kind: str) -> None:
    model, tokens = reading(kind), stream(2, 13, torch.float64)
    expected = plainly(model, tokens)
    assert relative_error(run_steps(model, tokens), expected) <= 1e-10
    assert relative_error(run_windows(model, tokens), expected) <= 1e-10
    with torch.no_grad():
        chunk, _ = model.steps(tokens, model.initial_state(2))
    assert relative_error(chunk, expected) <= 1e-10


def test_windows_of_a_chunk_that_share_their_tokens() -> None:
    model, tokens = reading("recycling, two blocks"), stream(2, 9, torch.float64)
    streams, lasts = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 8, 2, 3, 5])
    with torch.no_grad():
        logits, _ = model.windows(tokens, torch.zeros(2, dtype=torch.long), streams, lasts)
    assert relative_error(logits, plainly(model, tokens)[streams, lasts]) <= 1e-10


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 20), max_size=5))
def test_any_partition_into_chunks(cuts: list[int]) -> None:
    model, tokens = reading("relative"), stream(3, 20, torch.float64)
    state, parts = model.initial_state(3), []
    with torch.no_grad():
        for begin, end in pairwise([0, *sorted(cuts), 20]):
            logits, state = model.steps(tokens[:, begin:end], state)
            parts.append(logits)
    assert relative_error(torch.cat(parts, dim=1), plainly(model, tokens)) <= 1e-10


def test_rows_are_independent() -> None:
    model, tokens = reading("none"), stream(3, 8, torch.float64)
    schedule = [(True, True, False), (True, False, True), (False, True, True), (True, True, True), (True, True, False)]
    check_rows_are_independent(model, tokens, run_steps(model, tokens), schedule, reset=3)


def test_the_encoder_learns_without_it_and_it_does_not_learn() -> None:
    model, tokens = reading("relative", reading_evidence=True), stream(2, 9, torch.float64)
    plain = small_model(torch.float64, **{**vars(model.config), **NOT_READING}).train()
    plain.load_state_dict({name: value for name, value in model.state_dict().items() if "reading" not in name})
    model.train()
    mine, _ = model.steps(tokens, model.initial_state(2))
    theirs, _ = plain.steps(tokens, plain.initial_state(2))
    assert torch.equal(mine, theirs)
    assert torch.equal(model(tokens[:, :4]), plain(tokens[:, :4]))
    torch.testing.assert_close(model.step(tokens[:, 0], model.initial_state(2))[0], mine[:, 0])
    mine.sum().backward()  # type: ignore[no-untyped-call]
    assert all((parameter.grad is None) == ("reading" in name) for name, parameter in model.named_parameters())


def test_a_snapshot_holds_what_was_read(tmp_path: Path) -> None:
    model, tokens = reading("relative", torch.float32), stream(1, 12)
    with torch.no_grad():
        _, state = model.steps(tokens[:, :7], model.initial_state(1))
        model.snapshot(state, tmp_path / "state.safetensors")
        logits, _ = model.steps(tokens[:, 7:], model.restore(tmp_path / "state.safetensors"))
    assert relative_error(logits, run_steps(model, tokens)[:, 7:]) <= 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reading": 1.0}, "reading must be at least 0 and below 1"),
        ({"reading": -0.1}, "reading must be at least 0"),
        ({"reading_evidence": True}, "it needs a reading"),
        ({"reading": 0.5, "recall": 4}, "choose one of the two"),
        ({"reading": 0.5, "lag": 1}, "a reading is of the window up to now"),
        ({"reading": 0.5, "positional": "none", **DECODER}, "has no reading"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        small_model(**{"positional": "relative", **changes})
