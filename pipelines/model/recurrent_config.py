"""The configuration of a recurrent model (MiniROAD): an embedding, a GRU, a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pipelines.model.base_config import BaseConfig


@dataclass(frozen=True)
class RecurrentConfig(BaseConfig):
    """What a recurrent model is made of. A stream's state is one vector for each layer."""

    kind: ClassVar[str] = "recurrent"

    input_width: int  # numbers per token at the input
    embedding: int  # width of what the GRU reads
    width: int  # of the GRU's state
    layers: int  # of the GRU
    classes: int
    # Tokens that training goes back in time, and that the windowed model is counted on. A stream goes on for ever.
    window: int = 128
    dropout: float = 0.0  # in training only, after the embedding
    input_dropout: float = 0.0  # in training only, of the features

    def __post_init__(self) -> None:
        self.check_types()
        self.check_at_least_one("input_width", "embedding", "width", "layers", "classes", "window")
        self.check_shares("dropout", "input_dropout")

    @property
    def warm_up(self) -> int:
        return 1

    @property
    def receptive_field(self) -> int | None:
        return None

    @property
    def window_obstacle(self) -> str | None:
        return "a recurrent model has no window that it is equal to"

    @property
    def depth(self) -> int:
        return self.layers

    def summary(self) -> str:
        layers = f"{self.layers} layer{'s' * (self.layers > 1)}"
        return f"recurrent model, GRU of {layers}, width {self.width}, embedding {self.embedding}"
