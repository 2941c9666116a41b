"""The time of single steps, measured on a few recordings: what a live stream pays, whatever mode gave the scores."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.model.continual_model import ContinualModel
from pipelines.running.runner import Recording, Run, Speed, speed_of

STEPS = 1000  # timed ones; the window is full before the first of them
SECONDS = 3.0  # a slow model gets fewer
FEWEST = 20


def time_steps(model: ContinualModel, recordings: Sequence[Recording], hop: float | None = None) -> Speed:
    """Median and p95 of a step with a full window. hop: seconds between rows of the recordings.

    The rows of the recordings are put behind each other, as often as it takes: time does not depend on values.
    """
    window = model.config.window
    rows = _some_rows(recordings, window + STEPS)
    tokens = torch.from_numpy(rows).to(model.device, model.dtype)
    with torch.inference_mode():
        state = model.initial_state(1)
        _, state = model.steps(tokens[:window].unsqueeze(0), state)
        seconds: list[float] = []
        stop = time.perf_counter() + SECONDS
        for token in tokens[window:].unsqueeze(1).unbind(0):
            begin = time.perf_counter()
            if begin > stop and len(seconds) >= FEWEST:
                break
            output, state = model.step_(token, state)
            if output.is_cuda:
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
    return speed_of(Run("stream", {}, (), len(seconds), sum(seconds), np.array(seconds)), hop)


def _some_rows(recordings: Sequence[Recording], count: int) -> NDArray[np.float32]:
    """`count` rows of real features, (count, width)."""
    parts: list[NDArray[np.float32]] = []
    gathered = 0
    for recording in recordings:
        rows = np.asarray(recording.open()[0 : count - gathered], dtype=np.float32)
        parts.append(rows)
        gathered += len(rows)
        if gathered >= count:
            break
    joined = np.concatenate(parts)
    return np.resize(joined, (count, joined.shape[1]))
