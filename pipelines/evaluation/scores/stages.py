"""Scores per tenth of an action, early to late: how soon is an action recognised?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.scores.diagnosis import runs
from pipelines.metrics.precision import Bools, Floats, Integers, operating_points

STAGES = 10


def stage_of_frames(positive: Bools, video: Integers) -> NDArray[np.bool_]:
    """Which frames of a class belong to which tenth of their action: (frames,) truth -> (stages, frames).

    An action is a run of positive frames within one video. The cut points are those of LSTR's script: of a
    run from s to e (its last frame) stage k takes s + ⌊(e−s)·k/10⌋ up to s + ⌊(e−s)·(k+1)/10⌋, at least one
    frame. So short actions give their frames to several stages, and the last frame of a longer one belongs
    to none.
    """
    frames = len(positive)
    first, last = runs(positive, video)
    members = np.zeros((STAGES, frames), dtype=np.bool_)
    for stage in range(STAGES):
        begin = first + ((last - first) * (stage / STAGES)).astype(np.int64)
        end = np.maximum(begin + 1, first + ((last - first) * ((stage + 1) / STAGES)).astype(np.int64))
        change = np.zeros(frames + 1, dtype=np.int64)
        np.add.at(change, begin, 1)
        np.add.at(change, end, -1)
        members[stage] = np.cumsum(change[:-1]) > 0
    return members


def stage_scores(scores: Floats, positives: Bools, video: Integers) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """AP and calibrated AP of each tenth, both (stages, classes); NaN for a class without positives.

    scores, positives: (frames, classes). The positives of a stage are ranked against all negatives of the
    class.
    """
    classes = scores.shape[1]
    ap = np.full((STAGES, classes), np.nan)
    cap = np.full((STAGES, classes), np.nan)
    for column in range(classes):
        positive = np.ascontiguousarray(positives[:, column])
        if not positive.any():
            continue
        values = np.ascontiguousarray(scores[:, column])
        negatives = np.sort(values[~positive])
        for stage, member in enumerate(stage_of_frames(positive, video)):
            points = operating_points(values[member], negatives)
            ap[stage, column] = points.average_precision()
            cap[stage, column] = points.calibrated_average_precision()
    return ap, cap
