"""An exported step in onnxruntime. Nothing here needs PyTorch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CheckpointError, InputError
from pipelines.exporting.description import NEW, POSITION, SAMPLES, SCORES, TOKEN, StepDescription
from pipelines.onnx_session import GraphError, OnnxSession
from pipelines.wording import one_line

Values = NDArray[np.float32]
State = dict[str, NDArray[Any]]  # by name, each (rows, …)
SUFFIX = ".onnx"
LARGEST_STATE = 1 << 28  # numbers that a part of a row's state may have

_TYPES: Mapping[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
}


class OnnxStep:
    """One step for rows of a batch: `scores, state = step(tokens, state)`. State is a value, as elsewhere."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._session = _open(path)
        self.description = StepDescription.from_metadata(path, self._session.metadata)
        inputs = {value.name: value for value in self._session.inputs}
        outputs = self._session.outputs
        self._entering = TOKEN if self.description.samples is None else SAMPLES
        names = [name for name in inputs if name != self._entering]
        missing = [name for name in names if NEW + name not in outputs]
        if self._entering not in inputs or SCORES not in outputs or POSITION not in inputs or missing:
            raise CheckpointError(f"{path} is damaged: its inputs and outputs are not those of a step; export it again")
        unknown = [name for name in names if inputs[name].type not in _TYPES]
        if unknown:
            raise CheckpointError(
                f"{path} is damaged: its state {one_line(unknown[0])} is not numbers; export it again"
            )
        self._state = {name: (_row_shape(path, inputs[name]), _TYPES[inputs[name].type]) for name in names}
        self._outputs = [SCORES, *(NEW + name for name in names)]
        samples = self.description.samples
        # What a stream wants to know, under the name that other models have it. A row may be sound.
        self.config = self.description if samples is None else replace(self.description, input_width=samples)
        self._check_step()

    def _check_step(self) -> None:
        """One step of silence: what comes out must be what the description says."""
        before = self.initial_state(1)
        scores, after = self(np.zeros((1, self.config.input_width), np.float32), before)
        kept = all(after[name].shape == value.shape for name, value in before.items())
        if scores.shape != (1, self.description.classes) or not kept:
            raise CheckpointError(f"{self.path} is damaged: it does not give what it describes; export it again")

    @property
    def takes_chunks(self) -> bool:
        """A graph of one step takes one row after the other."""
        return False

    def initial_state(self, rows: int) -> State:
        """The state of `rows` streams before their first token: zeros."""
        return {name: np.zeros((rows, *shape), dtype) for name, (shape, dtype) in self._state.items()}

    def __call__(self, tokens: Values, state: State) -> tuple[Values, State]:
        """tokens (rows, input_width) -> scores (rows, classes) and the state after them. `state` is left as it is.

        A step with its features inside takes sound (rows, samples).
        """
        try:
            scores, *after = self._session.run(self._outputs, {self._entering: tokens, **state})
        except GraphError as error:
            raise CheckpointError(f"{self.path}: the step does not run: {error}") from error
        return scores, dict(zip(state, after, strict=True))


def _row_shape(path: Path, value: Any) -> tuple[int, ...]:
    """The shape of a state for each row of a batch."""
    shape = tuple(value.shape[1:])
    if not all(isinstance(size, int) and size > 0 for size in shape) or math.prod(shape) > LARGEST_STATE:
        raise CheckpointError(
            f"{path} is damaged: its state {one_line(value.name)} has no shape that a state has; export it again"
        )
    return shape


def _open(path: Path) -> OnnxSession:
    if not path.is_file():
        raise InputError(f"there is no exported model {path}")
    try:
        return OnnxSession(str(path), path, spinning=False)
    except GraphError as error:
        raise CheckpointError(f"{path} is not an ONNX graph that onnxruntime can load: {error}") from error
