"""Gradients through `steps` are those of autograd on the regular model; recycling encodings start anywhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.model.small import POSITIONAL, exists, small_model, stream


@pytest.mark.parametrize(
    ("positional", "class_token_block"),
    [
        (positional, class_token_block)
        for positional in ("none", "learned n", "cyclic 2n-1", "static", "relative", "rope", "alibi")
        for class_token_block in (None, 1)
        if exists(positional, 1, class_token_block)
    ],
)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_gradient_of_a_chunk_is_that_of_its_windows(positional: str, norm: str, class_token_block: int | None) -> None:
    model = small_model(torch.float64, norm=norm, class_token_block=class_token_block, **POSITIONAL[positional]).train()
    tokens = stream(2, 11, torch.float64)
    start = torch.tensor([3, 50])
    weights = torch.randn(2, 11, 3, dtype=torch.float64)

    logits, _ = model.steps(tokens, model.initial_state(2, start))
    (logits * weights).sum().backward()
    chunk = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    for t in range(11):
        first = max(0, t - 3)
        (model(tokens[:, first : t + 1], start + first) * weights[:, t]).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(chunk[name], parameter.grad, rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("positional", ["learned n", "rope", "alibi"])
def test_gradient_through_steps_of_two_blocks(positional: str) -> None:
    model = small_model(torch.float64, blocks=2, **POSITIONAL[positional])
    tokens = stream(1, 9, torch.float64)
    logits, _ = model.steps(tokens, model.initial_state())
    logits[:, -1].sum().backward()
    chunk = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    model(tokens[:, -4:], start=5).sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(chunk[name], parameter.grad, rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize(
    "settings", [{"dropout": 0.5}, {"input_dropout": 0.5}, {"embedding": 10, "embedding_dropout": 0.5}]
)
def test_dropout_is_for_training_only(settings: dict[str, Any]) -> None:
    model = small_model(**settings)
    tokens = stream(1, 4)
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))
    logits = [model.steps(tokens, model.initial_state())[0] for _ in range(2)]
    assert not torch.equal(*logits)


def test_streams_may_start_anywhere_in_a_recycling_encoding() -> None:
    model = small_model(torch.float64)
    tokens = stream(2, 10, torch.float64)
    state = model.initial_state(2, torch.tensor([5, 11]))
    with torch.no_grad():
        for t in range(10):
            logits, state = model.step(tokens[:, t], state)
            first = max(0, t - 3)
            wanted = model(tokens[:, first : t + 1], torch.tensor([5, 11]) + first)
            torch.testing.assert_close(logits, wanted, rtol=1e-10, atol=1e-10)
