"""Steps without end through rows that join and leave: scores stay finite, and as exact as at the beginning."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pipelines.streaming.predicting.session import StreamSession
from tests.model.small import SIZES, small_model

ROWS = 32
STAYS = 0  # a row that never leaves: what rounding adds up to shows there
CHECK_EVERY = 1000  # steps between comparisons with the regular model
TOLERANCE = 1e-3


def run_steps(
    steps: int, blocks: int, seed: int = 0, report: Callable[[int, float], None] = lambda step, worst: None
) -> list[str]:
    """Step a session of 32 rows, of which a random share has a token and some leave and join; what is wrong.

    blocks: of the model; with one, attention is computed for the last token alone, with more, the older ones are
    updated too. report: is told, at every comparison, the step and the largest difference so far.
    """
    model = small_model(blocks=blocks)
    session = StreamSession(model, ROWS)
    window, width = model.config.window, SIZES["input_width"]
    generator, numbers = random.Random(seed), np.random.default_rng(seed)
    recent: list[deque[Any]] = [deque(maxlen=window) for _ in range(ROWS)]
    others = [row for row in range(ROWS) if row != STAYS]
    problems, worst = [], 0.0
    for step in range(steps):
        if step % 50 == 0:
            leaving = generator.sample(others, 4)
            session.restart(leaving)
            for row in leaving:
                recent[row].clear()
        active = generator.sample(range(ROWS), generator.randint(1, ROWS))
        if step % CHECK_EVERY == 0 and STAYS not in active:
            active.append(STAYS)
        values = numbers.normal(size=(len(active), width)).astype(np.float32)
        scores = session.step(dict(zip(active, values, strict=True)))
        if not np.isfinite(np.stack([*scores.values()])).all():
            problems.append(f"step {step}: scores that are not finite")
        for row, token in zip(active, values, strict=True):
            recent[row].append(token)
        if step % CHECK_EVERY == 0:
            for row in {active[0], STAYS}:
                with torch.no_grad():
                    expected = model(
                        torch.from_numpy(np.stack([*recent[row]]))[None], start=session.seen(row) - len(recent[row])
                    )
                difference = float(np.abs(expected[0].numpy() - scores[row]).max())
                worst = max(worst, difference)
                if not difference < TOLERANCE:
                    problems.append(f"step {step}, row {row}: differs by {difference:g} from the regular model")
            report(step, worst)
    return problems
