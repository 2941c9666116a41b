"""Scores of a model on recordings during training: loss, accuracy of clips, mAP of frames.

Models with a banded pass are scored at every token. Others cost a window for each output: clips are scored at their
last token, frames at every `stride`-th.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.errors import InputError
from pipelines.metrics.precision import precision_scores
from pipelines.metrics.probabilities import probabilities
from pipelines.metrics.voting import majority_vote
from pipelines.model.continual_model import ContinualModel
from pipelines.running.passes import chunk_pass, late_pass, side_by_side, window_pass
from pipelines.training.fitting.distributed import Processes
from pipelines.training.fitting.losses import frame_losses, score_kind
from pipelines.training.samples.recordings import Recording
from pipelines.training.samples.sampling import Mode
from pipelines.training.samples.statistics import FeatureStatistics

METRICS = ("accuracy", "accuracy_mean", "accuracy_vote", "map")
RECORDINGS = 64  # side by side


@dataclass(frozen=True)
class Scores:
    """Higher is better, except for the loss. None: this kind of data or model does not have it."""

    loss: float
    accuracy: float | None = None  # of clips, by their last token
    accuracy_mean: float | None = None  # of clips, by the mean of their tokens' probabilities
    accuracy_vote: float | None = None  # of clips, by the class that most of their tokens name
    map: float | None = None  # of frames

    def value(self, metric: str) -> float:
        """The number to be maximised."""
        if metric == "loss":
            return -self.loss
        value = getattr(self, metric)
        if value is None:
            raise InputError(f"there is no validation metric '{metric}' for this model and dataset")
        if np.isnan(value):
            raise InputError(
                "no frame of the validation split has a label of any scored class: there is no mAP; choose another "
                "split with --validate-on"
            )
        return float(value)


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a model says about one recording."""

    recording: int
    frames: NDArray[np.int64]  # (k,) tokens at which there is an output
    logits: NDArray[np.float32]  # (k, classes)


@dataclass(frozen=True, eq=False)
class Validator:
    """The recordings of a split and how they are scored."""

    recordings: Sequence[Recording]
    scored_classes: tuple[int, ...]
    loss: Literal["cross-entropy", "binary"]
    mode: Mode  # chunk: every token from one banded pass
    stride: int = 1
    statistics: FeatureStatistics | None = None  # to standardise with
    lag: int = 0  # of frames: an output is about the frame so many before

    @property
    def clips(self) -> bool:
        return self.recordings[0].label is not None

    def score(self, model: ContinualModel, processes: Processes | None = None) -> Scores:
        """Score all recordings; processes share them."""
        processes = processes or Processes()
        mine = processes.share(len(self.recordings))
        training = model.training
        model.eval()
        with torch.inference_mode():
            outputs = self._outputs(model, mine, processes.device)
        model.train(training)
        gathered = [output for part in processes.gather(outputs) for output in part]
        return self.score_outputs(sorted(gathered, key=lambda output: output.recording))

    def _outputs(self, model: ContinualModel, mine: list[int], device: torch.device) -> list[Outputs]:
        """Every token by chunks; by windows, the last token of a clip or every `stride`-th of a stream."""
        outputs = []
        lengths = {index: len(self.recordings[index]) for index in mine}
        for group in side_by_side(lengths, RECORDINGS, model.config.input_width):
            tokens = [self._rows(index).to(device) for index in group]
            if self.mode == "chunk":
                frames = [range(lengths[index]) for index in group]
                results = chunk_pass(model, tokens)
            else:
                frames = [
                    range(lengths[index])[-1:] if self.clips else range(0, lengths[index], self.stride)
                    for index in group
                ]
                results = window_pass(model, tokens, frames)
            for index, places, result in zip(group, frames, results, strict=True):
                outputs.append(Outputs(index, np.array(places), result.logits))
            if self.lag:
                outputs += self._late_outputs(model, group, tokens)
        return outputs

    def _late_outputs(self, model: ContinualModel, group: list[int], tokens: list[Tensor]) -> list[Outputs]:
        """About the last rows of recordings, as if they were said at rows that would have followed."""
        late = []
        for index, rows, result in zip(group, tokens, late_pass(model, tokens), strict=True):
            frames = np.arange(max(len(rows), self.lag), len(rows) + self.lag)
            wanted = frames % (1 if self.mode == "chunk" else self.stride) == 0
            late.append(Outputs(index, frames[wanted], result.logits[wanted]))
        return late

    def _rows(self, index: int) -> Tensor:
        recording = self.recordings[index]
        rows = recording.finite(recording.rows[:])
        return torch.from_numpy(rows if self.statistics is None else self.statistics.standardize(rows))

    def confusion(self, model: ContinualModel) -> NDArray[np.int64]:
        """(classes, classes): how many clips, or frames with one label, of a class (row) were given another."""
        model.eval()
        with torch.inference_mode():
            outputs = self._outputs(model, [*range(len(self.recordings))], torch.device("cpu"))
        counts = np.zeros((self.recordings[0].classes,) * 2, dtype=np.int64)
        for output in outputs:
            recording = self.recordings[output.recording]
            scores = probabilities(output.logits, score_kind(self.loss))
            if self.clips:
                counts[recording.label, scores.mean(axis=0).argmax()] += 1
                continue
            about = output.frames - self.lag
            keep = (about >= 0) & recording.valid_rows(np.maximum(about, 0))
            truth = recording.target_rows(about[keep])
            single = truth.sum(axis=1) == 1
            np.add.at(counts, (truth[single].argmax(axis=1), scores[keep][single].argmax(axis=1)), 1)
        return counts

    def score_outputs(self, outputs: Sequence[Outputs]) -> Scores:
        """Score what a model, or something simpler, says about the recordings; in their order."""
        return self._clip_scores(outputs) if self.clips else self._frame_scores(outputs)

    def _clip_scores(self, outputs: Sequence[Outputs]) -> Scores:
        labels = np.array([self.recordings[output.recording].label for output in outputs])
        last = np.stack([output.logits[-1] for output in outputs])
        targets = np.stack(
            [self.recordings[output.recording].target_rows(np.zeros(1, dtype=np.int64))[0] for output in outputs]
        )
        loss = float(frame_losses(torch.from_numpy(last), torch.from_numpy(targets), self.loss).mean())
        accuracy = float((last.argmax(axis=1) == labels).mean())
        if self.mode != "chunk":
            return Scores(loss, accuracy)
        means = np.stack([probabilities(output.logits, score_kind(self.loss)).mean(axis=0) for output in outputs])
        clip = np.repeat(np.arange(len(outputs)), [len(output.logits) for output in outputs])
        votes = majority_vote(np.concatenate([output.logits for output in outputs]), clip, means)
        mean, vote = float((means.argmax(axis=1) == labels).mean()), float((votes == labels).mean())
        return Scores(loss, accuracy, mean, vote)

    def _frame_scores(self, outputs: Sequence[Outputs]) -> Scores:
        logits, targets = [], []
        for output in outputs:
            recording = self.recordings[output.recording]
            # The output at token t is about token t - lag; the first `lag` outputs repeat the first token's.
            about = output.frames - self.lag
            keep = (about >= 0) & recording.valid_rows(np.maximum(about, 0))
            logits.append(output.logits[keep])
            targets.append(recording.target_rows(about[keep]))
        pooled, truth = np.concatenate(logits), np.concatenate(targets)
        if len(pooled) == 0:
            raise InputError(
                "no frame of the validation split is left to score: all are ambiguous; choose another split with "
                "--validate-on"
            )
        losses = frame_losses(torch.from_numpy(pooled), torch.from_numpy(truth), self.loss)
        columns = list(self.scored_classes)
        result = precision_scores(probabilities(pooled, score_kind(self.loss))[:, columns], truth[:, columns] > 0)
        return Scores(float(losses.mean()), map=result.mean_ap)
