"""The proof that a streaming model is the regular one: the largest difference between runs in different modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pipelines.errors import CheckpointError, InputError
from pipelines.running.runner import Mode, Run

TOLERANCE = 1e-4  # relative; float32 rounding stays about ten times below


@dataclass(frozen=True)
class Agreement:
    """The largest difference between the logits of two or more runs."""

    absolute: float
    relative: float  # to the largest logit of the recording
    modes: tuple[Mode, Mode]  # the two that differ most
    recording: str
    row: int
    same_class: float  # share of rows for which all modes name the same class


def compare_runs(runs: Sequence[Run]) -> Agreement:
    """Compare every pair of runs, row by row."""
    if len(runs) < 2:
        raise InputError("two runs at least are needed to compare them")
    names = set(runs[0].outputs)
    if any(set(run.outputs) != names for run in runs):
        raise InputError("the modes did not run on the same recordings")
    worst = Agreement(0.0, 0.0, (runs[0].mode, runs[1].mode), next(iter(runs[0].outputs)), 0, 1.0)
    for first, second in combinations(runs, 2):
        for name in runs[0].outputs:
            a, b = first.outputs[name].logits, second.outputs[name].logits
            difference = np.abs(a.astype(np.float64) - b)
            scale = max(float(np.abs(a).max()), float(np.abs(b).max()), 1e-12)
            # NaN in an output is the largest difference there is, whatever the others are.
            difference = np.where(np.isnan(difference), np.inf, difference)
            largest = float(difference.max())
            relative = largest if math.isinf(largest) else largest / scale
            if relative > worst.relative:
                row = int(difference.max(axis=1).argmax())
                worst = Agreement(largest, relative, (first.mode, second.mode), name, row, 1.0)
    same = [
        np.all(
            [run.outputs[name].logits.argmax(axis=1) == runs[0].outputs[name].logits.argmax(axis=1) for run in runs], 0
        )
        for name in runs[0].outputs
    ]
    share = float(np.concatenate(same).mean())
    return Agreement(worst.absolute, worst.relative, worst.modes, worst.recording, worst.row, share)


def require_agreement(agreement: Agreement, tolerance: float = TOLERANCE) -> None:
    """Raise when modes that must be the same are not."""
    if not agreement.relative <= tolerance:
        raise CheckpointError(
            f"modes {agreement.modes[0]} and {agreement.modes[1]} differ by {agreement.relative:.1e} of the largest "
            f"logit in {agreement.recording}, row {agreement.row}, which is above the tolerance of {tolerance:.0e}: "
            "the streaming model is not the regular one"
        )
