"""The rule for "none of these" of a model that has just been trained, fitted on held-out and on foreign recordings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.checkpoints.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pipelines.metrics.rejection import Rejection, against_noise, fit_rejection
from pipelines.running.passes import chunk_pass
from pipelines.training.none_of_these.foreign import ForeignSound
from pipelines.training.none_of_these.none_shift import with_none_shift
from pipelines.training.none_of_these.read_evidence import with_read_evidence
from pipelines.training.samples.recordings import Recording

ANSWERS = 2  # of each recording: halfway and at its end, since a stream is judged at every row
AT_ONCE = 64  # recordings
EARLY = 1.0  # seconds at the beginning of a stream, in which more evidence is asked for
EARLY_SHARE = 0.25  # of the shortest clip, at most


def add_rejection(
    path: Path,
    validation: Sequence[Recording],
    foreign: ForeignSound,
    shortest: int = 0,
    unshown: Sequence[Recording] = (),
    chosen: Rejection | None = None,
    in_a_row: Sequence[Recording] = (),
) -> Rejection | None:
    """Fit the rule of a checkpoint of a clip model and write it there; None where there is nothing to fit on.

    shortest: rows of the shortest clip. unshown: the training recordings of a model that was shown no foreign sound,
    which it then learns of now. chosen: the rule, where it was chosen elsewhere: taken as it is. in_a_row: some of
    the training clips as a stream plays them, which are no strangers either.
    """
    if not validation and chosen is None:
        return None
    checkpoint = load_checkpoint(path)
    if checkpoint.rejection is not None:  # best of a run that went on and got no better: it has learned of them already
        return checkpoint.rejection
    strangers = foreign.train or foreign.fit
    if unshown and strangers:
        checkpoint = with_none_shift(checkpoint, unshown, strangers, in_a_row) or checkpoint
        checkpoint = with_read_evidence(checkpoint, validation, unshown, strangers, in_a_row, answers)
    rule = chosen
    if rule is None:
        rule = _fitted(checkpoint, validation, foreign)
        early = early_rows(checkpoint, shortest)
        rule = against_noise(rule, outputs(checkpoint, foreign.always), early, answers(checkpoint, validation))
    store_rejection(path, checkpoint, rule)
    return rule


def _fitted(checkpoint: Checkpoint, validation: Sequence[Recording], foreign: ForeignSound) -> Rejection:
    return fit_rejection(
        answers(checkpoint, validation),
        np.array([recording.label for recording in validation for _ in range(ANSWERS)]),
        answers(checkpoint, foreign.fit) if foreign.fit else None,
        answers(checkpoint, foreign.always) if foreign.always else None,
    )


def early_rows(checkpoint: Checkpoint, shortest: int) -> int:
    """Rows at the beginning of a stream in which less has been heard than any clip has to say."""
    most = int(EARLY_SHARE * shortest)
    return most if checkpoint.features is None else min(most, round(EARLY / checkpoint.features.hop))


def store_rejection(path: Path, checkpoint: Checkpoint, rule: Rejection) -> None:
    """Write a checkpoint again, with a rule."""
    save_checkpoint(
        path,
        checkpoint.model,
        checkpoint.class_names,
        checkpoint.features,
        checkpoint.provenance,
        checkpoint.score_kind,
        rule,
        checkpoint.smoothing,
        checkpoint.order,
        checkpoint.least,
    )


def answers(checkpoint: Checkpoint, recordings: Sequence[Recording]) -> NDArray[np.float32]:
    """Logits (ANSWERS · recordings, classes), those of a recording together."""
    return np.concatenate([logits[[len(logits) // 2, -1]] for logits in outputs(checkpoint, recordings)])


def outputs(checkpoint: Checkpoint, recordings: Sequence[Recording]) -> list[NDArray[np.float32]]:
    """Logits (rows, classes) of each recording."""
    model = checkpoint.model
    results: list[NDArray[np.float32]] = []
    dtype = next(model.parameters()).dtype
    with torch.inference_mode():
        for begin in range(0, len(recordings), AT_ONCE):
            part = recordings[begin : begin + AT_ONCE]
            tokens = [torch.from_numpy(np.asarray(recording.rows[:])).to(dtype) for recording in part]
            results += [output.logits.astype(np.float32) for output in chunk_pass(model, tokens)]
    return results
