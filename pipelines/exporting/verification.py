"""Whether an exported step gives the numbers of the model: row by row, from the first on, with several batch sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.errors import CheckpointError
from pipelines.model.continual_model import ContinualModel
from pipelines.model.precision import Precision

# The largest difference of a score that a file may have, as a share of the largest score of its stream.
TOLERANCES: dict[Precision, float] = {"float32": 1e-5, "float16": 1e-2, "int8": 1e-1}
WINDOWS = 3  # steps that are compared, in windows
LONG_WINDOW = 1024  # rows: of a longer one, 256 steps after it is full are compared
BATCHES = (1, 3)

Values = NDArray[np.float32]
# tokens (rows, input_width), and whether they are the first of their streams, to scores (rows, classes)
Runner = Callable[[Values, bool], Values]
OnProgress = Callable[[int, int], None]  # steps done, steps in all


@dataclass(frozen=True)
class Verification:
    """How far a file is from its model."""

    steps: int  # compared, of every batch
    batches: tuple[int, ...]
    relative: float  # the largest difference, as a share of the largest score of the same stream
    same_class: float  # share of steps whose best class is the same
    tolerance: float

    def require(self) -> None:
        """Raise where the difference is above the tolerance."""
        if not self.relative <= self.tolerance:
            raise CheckpointError(
                f"the exported step differs from the model by {self.relative:.1e} of the largest score, more than the "
                f"{self.tolerance:.0e} that it may: nothing was written"
            )


@torch.inference_mode()
def verify(
    model: ContinualModel, run: Runner, precision: Precision, on_progress: OnProgress | None = None
) -> Verification:
    """Compare steps on random rows. run: `run(tokens, begins)`; a batch of streams begins with its first step."""
    window = model.config.warm_up
    steps = WINDOWS * window if window <= LONG_WINDOW else window + 256
    generator = torch.Generator().manual_seed(0)
    relative, same = 0.0, []
    for number, batch in enumerate(BATCHES):
        state = model.initial_state(batch)
        ours, theirs = [], []
        for step in range(steps):
            token = torch.randn(batch, model.config.input_width, generator=generator)
            logits, state = model.step_(token.to(model.dtype), state)
            theirs.append(logits.float().numpy())
            ours.append(run(token.numpy(), step == 0))
            if on_progress is not None:
                on_progress(number * steps + step + 1, len(BATCHES) * steps)
        relative = max(relative, difference(np.stack(ours), np.stack(theirs)))
        same.append(np.stack(ours).argmax(-1) == np.stack(theirs).argmax(-1))
    return Verification(steps, BATCHES, relative, float(np.concatenate(same, axis=1).mean()), TOLERANCES[precision])


def difference(ours: Values, theirs: Values) -> float:
    """The largest difference of scores (steps, rows, classes), as a share of the largest score of the same row."""
    size = np.maximum(np.abs(theirs).max(axis=(0, 2)), np.finfo(np.float32).tiny)  # (rows,)
    largest = float((np.abs(ours.astype(np.float64) - theirs).max(axis=(0, 2)) / size).max())
    return largest if math.isfinite(largest) else math.inf  # what is not a number is infinitely wrong
