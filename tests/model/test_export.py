"""A compiled step does not recompile after warm-up, and a step exports with its state as input and output."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from pipelines.model import ContinualTransformer, StreamState
from tests.model.small import run_steps, small_model, stream

KINDS: dict[str, dict[str, Any]] = {
    "one block": {"blocks": 1},
    "one block, static, class token": {"blocks": 1, "positional": "static", "class_token_block": 1, "norm": "pre"},
    "two blocks": {"blocks": 2},
    "three blocks, static": {"blocks": 3, "positional": "static"},
    "deep": {"blocks": 2, "stacking": "deep"},
    "one block, relative, class token": {"blocks": 1, "positional": "relative", "class_token_block": 1},
    "two blocks, rope": {"blocks": 2, "positional": "rope"},
    "deep, rope, lag": {"blocks": 2, "stacking": "deep", "positional": "rope", "lag": 1},
    "three blocks, alibi": {"blocks": 3, "positional": "alibi"},
}


class Step(nn.Module):
    """What is exported: one step as a module."""

    def __init__(self, model: ContinualTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        return self.model.step(token, state)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_compiled_step_is_compiled_once(kind: str) -> None:
    torch._dynamo.reset()
    model = small_model(**KINDS[kind])
    counter = CompileCounter()
    step = torch.compile(model.step, backend=counter, fullgraph=True)
    tokens = stream(2, 12)
    state = model.initial_state(2)
    outputs = []
    for token in tokens.unbind(1):
        logits, state = step(token, state)
        outputs.append(logits)
    assert counter.frame_count == 1
    torch.testing.assert_close(torch.stack(outputs, dim=1), run_steps(model, tokens), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_exported_step(kind: str) -> None:
    model = small_model(**KINDS[kind])
    tokens = stream(1, 12)
    state = model.initial_state(1)
    step = torch.export.export(Step(model), (tokens[:, 0], state), strict=False).module()
    outputs = []
    for token in tokens.unbind(1):
        logits, state = step(token, state)
        outputs.append(logits)
    torch.testing.assert_close(torch.stack(outputs, dim=1), run_steps(model, tokens), rtol=1e-5, atol=1e-5)
