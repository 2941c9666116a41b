"""200,000 steps of a two-block model: the error does not grow, and neither does memory."""

from __future__ import annotations

import resource

import pytest
import torch

from tests.model.small import relative_error, small_model, stream

STEPS = 200_000


@pytest.mark.slow
def test_two_blocks_forever() -> None:
    model = small_model(blocks=2)
    n = model.config.window
    period = stream(1, 997)[0]  # a prime, so that the stream does not repeat in step with ring or positions
    state = model.initial_state()
    early = 0.0
    memory = 0
    with torch.inference_mode():
        for t in range(STEPS):
            logits, state = model.step_(period[t % 997].unsqueeze(0), state)
            if t < 2 * n or t >= STEPS - 2 * n:
                tokens = torch.stack([period[i % 997] for i in range(max(0, t + 1 - n), t + 1)])
                error = relative_error(logits, model(tokens.unsqueeze(0), start=max(0, t + 1 - n)))
                if t < 2 * n:
                    early = max(early, error)
                else:
                    assert error <= max(early, 1e-6), t
            if t == STEPS // 10:
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    assert grown < 5_000  # KiB
