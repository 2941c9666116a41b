"""A model without memory: every token on its own, by a linear layer or with one hidden layer."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from pipelines.model.continual_model import ContinualModel
from pipelines.model.linear.projection import Projection
from pipelines.model.per_frame_config import PerFrameConfig
from pipelines.model.state import StreamState
from pipelines.model.transformer.embedding import Embedding


class PerFrameModel(ContinualModel):
    """Class scores for a stream of tokens. The state only counts them."""

    config: PerFrameConfig

    def __init__(self, config: PerFrameConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = None
        if config.embedding is not None:
            self.embedding = Embedding(config.input_width, config.embedding, config.dropout, config.input_dropout)
        self.classifier = Projection(config.embedding or config.input_width, config.classes)

    def forward(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        """(B, T, input_width) to the newest token's logits (B, classes), to which the others are nothing."""
        return self._classified(tokens[:, -1])

    def with_lag(self, lag: int) -> PerFrameModel:
        """The same: the newest token is all that it ever sees, whatever it speaks of."""
        return self

    def initial_state(self, batch_size: int = 1, start: int | Tensor = 0) -> StreamState:
        return StreamState(*self._places(batch_size, start), (), None)

    def _step_(self, token: Tensor, state: StreamState, active: Tensor | None) -> tuple[Tensor, StreamState]:
        moved = state._replace(position=state.position + (1 if active is None else active))
        return self._classified(token), moved

    def _steps(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        return self._classified(tokens), state._replace(position=state.position + tokens.shape[1])

    @property
    def takes_chunks(self) -> bool:
        return True

    @property
    def input_layers(self) -> tuple[Projection, ...]:
        return (self.classifier if self.embedding is None else self.embedding.linear,)

    def _classified(self, tokens: Tensor) -> Tensor:
        if self.embedding is not None:
            tokens = self.embedding(tokens)
        elif self.training and self.config.input_dropout:
            tokens = F.dropout(tokens, self.config.input_dropout)
        return self.classifier.project(tokens)
