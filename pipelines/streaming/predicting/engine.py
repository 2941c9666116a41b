"""What a stream session needs of whatever runs the model: PyTorch, or onnxruntime for an exported one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipelines.exporting.runtime import OnnxStep

if TYPE_CHECKING:
    from pipelines.model.base_config import BaseConfig
    from pipelines.model.continual_model import ContinualModel
    from pipelines.model.state import StreamState

Values = NDArray[np.float32]
SteppingModel: TypeAlias = "ContinualModel | OnnxStep"


class StepEngine(Protocol):
    """Runs a model for the rows of a batch and keeps their state."""

    def step(self, tokens: Values, active: Sequence[int] | None) -> Values:
        """tokens (rows, input_width) -> raw scores (rows, classes). active: the rows that move on; None: all.

        NaN or infinity in an active row raises NonFiniteInputError with the rows, and no state is changed.
        """

    def steps(self, row: int, tokens: Values) -> Values | None:
        """The next tokens (T, input_width) of one row -> raw scores (T, classes). As `step`, for one row alone.

        None where scores are not all finite: then no state has changed.
        """

    def restart(self, rows: Sequence[int]) -> None:
        """Set rows back to before their first token."""

    def late(self, row: int, tokens: Values, before: int) -> list[Values]:
        """Raw scores (classes,) about the last tokens of a row, up to `lag`, if nothing more comes; oldest first.

        tokens: (T, input_width) the last ones, as many as an output depends on. before: how many came before them.
        """

    def snapshot(self) -> StreamState:
        """A copy of the state, which further steps do not change."""

    def restore(self, state: StreamState) -> list[int]:
        """Go on from a state of as many rows -> how many tokens each of them has seen."""


def model_config(model: SteppingModel) -> BaseConfig:
    """The configuration of a model, or of the one that was exported."""
    if isinstance(model, OnnxStep):
        from pipelines.model.kinds import config_from_json

        return config_from_json(model.description.config)
    return model.config
