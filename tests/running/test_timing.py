"""The time of single steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.checkpoints.checkpoint import load_checkpoint
from pipelines.running.runner import Recording
from pipelines.running.timing import time_steps
from tests.evaluation.evaluation_problems import WIDTH, write_model


@pytest.mark.parametrize("blocks", [1, 2])
def test_steps_are_timed_on_recordings_of_any_length(tmp_path: Path, blocks: int) -> None:
    model = load_checkpoint(write_model(tmp_path / "m.safetensors", blocks=blocks)).model
    rows = np.random.default_rng(0).normal(size=(3, WIDTH)).astype(np.float32)
    speed = time_steps(model, [Recording.of("a", rows), Recording.of("b", rows)], hop=0.5)
    assert speed.step_us_median is not None and speed.step_us_p95 is not None
    assert 0 < speed.step_us_median <= speed.step_us_p95
    assert speed.real_time_factor == pytest.approx(speed.frames_per_second / 2)
    assert time_steps(model, [Recording.of("a", rows)]).real_time_factor is None
