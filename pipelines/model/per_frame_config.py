"""The configuration of a model without memory: what every other one must be better than."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pipelines.errors import ConfigurationError
from pipelines.model.base_config import BaseConfig


@dataclass(frozen=True)
class PerFrameConfig(BaseConfig):
    """A classifier of single tokens, with or without a hidden layer."""

    kind: ClassVar[str] = "per-frame"

    input_width: int  # numbers per token at the input
    classes: int
    embedding: int | None = None  # width of a hidden layer with norm, ReLU and dropout; None: a linear model
    dropout: float = 0.0  # in training only, after the hidden layer
    input_dropout: float = 0.0  # in training only, of the features
    lag: int = 0  # the output is about the token `lag` steps ago, which features with a memory still know

    def __post_init__(self) -> None:
        self.check_types()
        self.check_at_least_one("input_width", "classes")
        self.check_shares("dropout", "input_dropout")
        if self.embedding is not None:
            self.check_at_least_one("embedding")
        elif self.dropout:
            raise ConfigurationError(f"dropout is {self.dropout}, but there is no embedding: use input_dropout")

        if self.lag < 0:
            raise ConfigurationError(f"lag must not be negative, not {self.lag}")

    @property
    def window(self) -> int:
        return 1

    @property
    def receptive_field(self) -> int:
        """One token; those after the one that is spoken of count, so that the last ones can be spoken of at the end."""
        return self.lag + 1

    def summary(self) -> str:
        hidden = "linear" if self.embedding is None else f"hidden layer of {self.embedding}"
        return f"per-frame model without memory, {hidden}"
