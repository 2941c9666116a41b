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
# What enters (rows, …), and whether it is the first of its streams, to scores (rows, classes).
Runner = Callable[[Values, bool], Values]
# Number of rows, and whether their streams begin, to what enters the file and the tokens that the model gets instead.
Source = Callable[[int, bool], tuple[Values, Values]]
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
    model: ContinualModel,
    run: Runner,
    precision: Precision,
    on_progress: OnProgress | None = None,
    source: Source | None = None,
    least: float = 0.0,
) -> Verification:
    """Compare steps. run: the file. source: what they are compared on; None: random rows. least: a tolerance that is
    allowed in every precision.
    """
    source = source or random_rows(model.config.input_width)
    window = model.config.warm_up
    steps = WINDOWS * window if window <= LONG_WINDOW else window + 256
    relative, same = 0.0, []
    for number, batch in enumerate(BATCHES):
        state = model.initial_state(batch)
        ours, theirs = [], []
        for step in range(steps):
            entering, token = source(batch, step == 0)
            logits, state = model.step_(torch.from_numpy(token).to(model.dtype), state)
            theirs.append(logits.float().numpy())
            ours.append(run(entering, step == 0))
            if on_progress is not None:
                on_progress(number * steps + step + 1, len(BATCHES) * steps)
        relative = max(relative, difference(np.stack(ours), np.stack(theirs)))
        same.append(np.stack(ours).argmax(-1) == np.stack(theirs).argmax(-1))
    share = float(np.concatenate(same, axis=1).mean())
    return Verification(steps, BATCHES, relative, share, max(least, TOLERANCES[precision]))


def random_rows(width: int) -> Source:
    """Standard normal rows, the same every time."""
    generator = np.random.default_rng(0)

    def rows(count: int, begins: bool) -> tuple[Values, Values]:
        row = generator.normal(size=(count, width)).astype(np.float32)
        return row, row

    return rows


def difference(ours: Values, theirs: Values) -> float:
    """The largest difference of scores (steps, rows, classes), as a share of the largest score of the same row."""
    size = np.maximum(np.abs(theirs).max(axis=(0, 2)), np.finfo(np.float32).tiny)  # (rows,)
    largest = float((np.abs(ours.astype(np.float64) - theirs).max(axis=(0, 2)) / size).max())
    return largest if math.isfinite(largest) else math.inf  # what is not a number is infinitely wrong
