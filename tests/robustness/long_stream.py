"""Steps without end through rows that join and leave: scores stay finite, and those of a row that just joined exact."""

from __future__ import annotations

import random

import numpy as np
import torch

from pipelines.streaming.predicting.session import StreamSession
from tests.model.small import SIZES, small_model

ROWS = 32
CHECK_EVERY = 1000  # steps between comparisons with the regular model
TOLERANCE = 1e-3


def run_steps(steps: int, seed: int = 0) -> list[str]:
    """Step a session of 32 rows, of which a random share has a token and some leave and join; what is wrong."""
    model = small_model(blocks=2)
    session = StreamSession(model, ROWS)
    window, width = model.config.window, SIZES["input_width"]
    generator, numbers = random.Random(seed), np.random.default_rng(seed)
    recent: list[list[np.ndarray]] = [[] for _ in range(ROWS)]  # type: ignore[type-arg]
    problems = []
    for step in range(steps):
        if step % 50 == 0:
            leaving = generator.sample(range(ROWS), 4)
            session.restart(leaving)
            for row in leaving:
                recent[row].clear()
        active = generator.sample(range(ROWS), generator.randint(1, ROWS))
        values = numbers.normal(size=(len(active), width)).astype(np.float32)
        scores = session.step(dict(zip(active, values, strict=True)))
        for row, token in zip(active, values, strict=True):
            recent[row] = [*recent[row], token][-window:]
        if step % CHECK_EVERY == 0:
            row = active[0]
            with torch.no_grad():
                expected = model(
                    torch.from_numpy(np.stack(recent[row]))[None], start=session.seen(row) - len(recent[row])
                )
            difference = float(np.abs(expected[0].numpy() - scores[row]).max())
            if not difference < TOLERANCE:
                problems.append(f"step {step}, row {row}: differs by {difference:g} from the regular model")
    return problems
