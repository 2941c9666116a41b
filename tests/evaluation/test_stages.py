"""Tenths of an action against a frame-by-frame reading of the rule."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from pipelines.evaluation.scores.stages import STAGES, stage_of_frames, stage_scores


def slow_members(positive: np.ndarray, video: np.ndarray, stage: int) -> list[int]:
    """Walk over the frames, collect runs, cut each run."""
    runs: list[list[int]] = []
    for frame, is_positive in enumerate(positive):
        if not is_positive:
            continue
        if runs and runs[-1][-1] == frame - 1 and video[frame - 1] == video[frame]:
            runs[-1].append(frame)
        else:
            runs.append([frame])
    members = set()
    for run in runs:
        span = run[-1] - run[0]
        begin = run[0] + int(span * (stage / 10))
        end = max(begin + 1, run[0] + int(span * ((stage + 1) / 10)))
        members.update(range(begin, end))
    return sorted(members)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 90), st.floats(0.02, 0.5))
def test_stages_cut_runs_as_the_official_script(seed: int, frames: int, switching: float) -> None:
    generator = np.random.default_rng(seed)
    positive = np.cumsum(generator.random(frames) < switching) % 2 == 1
    video = np.cumsum(generator.random(frames) < 0.05)
    members = stage_of_frames(positive, video)
    for stage in range(STAGES):
        assert np.flatnonzero(members[stage]).tolist() == slow_members(positive, video, stage)
    assert not (members & ~positive).any()


def test_a_stage_is_ranked_against_all_negatives() -> None:
    generator = np.random.default_rng(4)
    scores = generator.random((300, 2))
    positives = np.zeros((300, 2), dtype=bool)
    positives[20:62, 0] = positives[150:199, 0] = True
    ap, cap = stage_scores(scores, positives, np.repeat([0, 1], 150))
    for stage in range(STAGES):
        rows = slow_members(positives[:, 0], np.repeat([0, 1], 150), stage)
        chosen = np.concatenate([np.flatnonzero(~positives[:, 0]), rows])
        expected = average_precision_score(positives[chosen, 0], scores[chosen, 0])
        np.testing.assert_allclose(ap[stage, 0], expected, atol=1e-12)
    assert np.isnan(ap[:, 1]).all() and np.isnan(cap[:, 1]).all()


def test_late_recognition_shows_in_the_stages() -> None:
    positives = np.zeros((200, 1), dtype=bool)
    positives[50:151] = True
    scores = np.where(positives, np.linspace(-1, 2, 200)[:, None], 0.5)
    ap, _ = stage_scores(scores, positives, np.zeros(200, dtype=int))
    assert ap[-1, 0] == 1.0 and ap[0, 0] < 0.5
    assert (np.diff(ap[:, 0]) >= -1e-12).all()
