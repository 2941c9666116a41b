"""The rule for "none of these" of a model that has just been trained, fitted on held-out and on foreign recordings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.checkpoints.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from pipelines.metrics.rejection import Rejection, fit_rejection
from pipelines.running.passes import chunk_pass
from pipelines.training.none_of_these.foreign import ForeignSound
from pipelines.training.none_of_these.none_shift import with_none_shift
from pipelines.training.samples.recordings import Recording

ANSWERS = 2  # of each recording: halfway and at its end, since a stream is judged at every row
AT_ONCE = 64  # recordings


def add_rejection(
    path: Path,
    validation: Sequence[Recording],
    foreign: ForeignSound,
    unshown: Sequence[Recording] = (),
    threshold: float | None = None,
) -> Rejection | None:
    """Fit the rule of a checkpoint of a clip model and write it there; None where there is nothing to fit on.

    unshown: the training recordings of a model that was shown no foreign sound, which it then learns of now.
    threshold: of the evidence, where it was chosen elsewhere.
    """
    if not validation and threshold is None:
        return None
    checkpoint = load_checkpoint(path)
    strangers = foreign.train or foreign.fit
    if unshown and strangers:
        checkpoint = with_none_shift(checkpoint, unshown, strangers) or checkpoint
    if threshold is not None:
        rule = Rejection("energy", threshold)
        store_rejection(path, checkpoint, rule)
        return rule
    labels = np.array([recording.label for recording in validation for _ in range(ANSWERS)])
    rule = fit_rejection(
        answers(checkpoint, validation),
        labels,
        answers(checkpoint, foreign.fit) if foreign.fit else None,
        answers(checkpoint, foreign.always) if foreign.always else None,
    )
    store_rejection(path, checkpoint, rule)
    return rule


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
    )


def answers(checkpoint: Checkpoint, recordings: Sequence[Recording]) -> NDArray[np.float32]:
    """Logits (ANSWERS · recordings, classes), those of a recording together."""
    model, results = checkpoint.model, []
    dtype = next(model.parameters()).dtype
    with torch.inference_mode():
        for begin in range(0, len(recordings), AT_ONCE):
            part = recordings[begin : begin + AT_ONCE]
            tokens = [torch.from_numpy(np.asarray(recording.rows[:])).to(dtype) for recording in part]
            results += [output.logits[[len(output.logits) // 2, -1]] for output in chunk_pass(model, tokens)]
    return np.concatenate(results).astype(np.float32)
