"""Which stretches of which recordings make up an epoch, in which order and in which batches.

Everything is a function of seed and epoch: a run that is resumed draws what the run that was not interrupted draws.

An output at token t has seen the n tokens that end at t; every one of these windows is a training example. *Window
sampling* runs the regular model on each. *Chunk sampling* takes a stretch of labelled tokens with the tokens that
their windows reach back to, and gets all their outputs from one banded pass. *Shared sampling* takes such stretches for
models that have no banded pass: the regular model goes over every `stride`-th window of a stretch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from pipelines.errors import ConfigurationError
from pipelines.model.base_config import BaseConfig
from pipelines.training.recipes.recipe import Recipe

Mode = Literal["chunk", "shared", "window"]
LONG = 4  # times as long as the median clip: of a longer one, a part is taken in each epoch
EPOCH_STREAM, SAMPLE_STREAM, STEP_STREAM = 0, 1, 2  # keep the random numbers of different purposes apart


@dataclass(frozen=True)
class Sample:
    """Tokens `begin` to `end` of a recording, with a loss on the outputs from `first` on."""

    recording: int
    begin: int
    end: int
    first: int

    def __len__(self) -> int:
        return self.end - self.begin

    def later(self, tokens: int) -> Sample:
        """The same so many tokens later."""
        return replace(self, begin=self.begin + tokens, end=self.end + tokens, first=self.first + tokens)


@dataclass(frozen=True)
class SamplingPlan:
    """How recordings are divided into samples."""

    mode: Mode
    window: int  # n
    context: int  # tokens before a labelled one that its output depends on
    chunk: int | None  # labelled tokens in a chunk; None: whole recordings
    stride: int
    last_only: bool  # clips: one output each
    partial_windows: bool
    batch_size: int
    steps_per_epoch: int = 0
    clips: bool = False  # each has one label

    def samples(self, lengths: Sequence[int], generator: np.random.Generator) -> list[Sample]:
        """One epoch's samples of recordings of the given lengths, in order."""
        drawn: list[Sample] = []
        longest = max(self.window, round(LONG * float(np.median(lengths)))) if self.clips and lengths else None
        for recording, length in enumerate(lengths):
            if self.last_only:
                drawn.append(self._one(recording, length, generator))
                continue
            # Of a clip that is far longer than the others, a random part: a batch is as long as its longest.
            begin = 0
            if longest is not None and length > longest:
                begin, length = int(generator.integers(length - longest + 1)), longest
            sampled = self._windows if self.mode == "window" else self._chunks
            drawn += [sample.later(begin) for sample in sampled(recording, length, generator)]
        return drawn

    def batches(self, lengths: Sequence[int], seed: int, epoch: int) -> list[list[Sample]]:
        """One epoch, shuffled. The batches are global: processes of a distributed run share each of them."""
        generator = np.random.default_rng([seed, EPOCH_STREAM, epoch])
        samples = self.samples(lengths, generator)
        order = generator.permutation(len(samples))
        size = self.batch_size
        batches = [[samples[i] for i in order[begin : begin + size]] for begin in range(0, len(order), size)]
        return batches[: self.steps_per_epoch] if self.steps_per_epoch else batches

    def _first_labelled(self, length: int) -> int:
        """The first token with a loss; a recording that is shorter than the window has its last."""
        return 0 if self.partial_windows else min(self.window, length) - 1

    def _one(self, recording: int, length: int, generator: np.random.Generator) -> Sample:
        """One window of a clip: the whole of it or, of a longer one, a random part."""
        end = int(generator.integers(min(self.window, length), length + 1))
        begin = max(0, end - self.context - 1)
        return Sample(recording, begin, end, end - 1)

    def _windows(self, recording: int, length: int, generator: np.random.Generator) -> list[Sample]:
        first = self._first_labelled(length)
        # Another phase in every epoch, so that a stride sees all windows in the long run.
        phase = int(generator.integers(min(self.stride, length - first)))
        ends = range(first + phase, length, self.stride)
        return [Sample(recording, max(0, last - self.context), last + 1, last) for last in ends]

    def _chunks(self, recording: int, length: int, generator: np.random.Generator) -> list[Sample]:
        first = self._first_labelled(length)
        if self.chunk is None:
            return [Sample(recording, 0, length, first)]
        # The first chunk is shorter by a random number, so that chunks are divided elsewhere in every epoch.
        edge = first + int(generator.integers(1, self.chunk + 1))
        edges = [first, *range(edge, length, self.chunk), length]
        return [Sample(recording, max(0, begin - self.context), end, begin) for begin, end in pairwise(edges)]


def sampling_plan(recipe: Recipe, config: BaseConfig, clips: bool) -> SamplingPlan:
    """How a recipe samples for a model, on clips or on streams with labelled frames."""
    options = recipe.training
    if options.sampling == "chunk" and config.chunk_obstacle is not None:
        raise ConfigurationError(f"training.sampling is chunk, but {config.chunk_obstacle}: use window or auto")
    if config.window_obstacle is not None and options.sampling == "window":
        raise ConfigurationError(f"training.sampling is window, but {config.window_obstacle}: use chunk or auto")
    if options.sampling == "shared" and config.sharing_obstacle is not None:
        raise ConfigurationError(f"training.sampling is shared, but {config.sharing_obstacle}: use auto")
    if options.sampling == "shared" and clips:
        raise ConfigurationError("training.sampling is shared, but a clip is one window: use auto")
    mode: Mode = "chunk" if options.sampling != "window" and config.chunk_obstacle is None else "window"
    if options.sampling == "shared":
        mode = "shared"
    loss_on = ("last" if clips else "every") if options.loss_on == "auto" else options.loss_on
    if loss_on == "last" and not clips:
        raise ConfigurationError("training.loss_on is last, but every frame of this dataset has labels: use every")
    in_chunks = mode != "window" and not clips
    cold = in_chunks and options.cold_chunks
    return SamplingPlan(
        mode=mode,
        # Of a stream, where losses begin; of a clip, how much of it is taken.
        window=config.window if clips else config.warm_up,
        context=0 if cold else config.context,
        chunk=options.chunk if in_chunks else None,
        stride=options.stride,
        last_only=loss_on == "last",
        # Every token of a clip: most of them stand before the first full window, which is often the whole clip.
        partial_windows=options.partial_windows or cold or (clips and loss_on == "every"),
        batch_size=options.chunk_batch if in_chunks else options.batch_size,
        steps_per_epoch=options.steps_per_epoch,
        clips=clips,
    )
