"""The recurrent model (MiniROAD): embedding, GRU, ReLU, classifier. Its state is one vector for each layer.

It has no window: an output depends on everything that came before. "The model on a window" is the model from its
zero state over the tokens it is given, so it equals the stream where these begin with the stream.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from pipelines.model.continual_model import ContinualModel
from pipelines.model.linear.gru import Gru
from pipelines.model.linear.projection import Projection
from pipelines.model.recurrent_config import RecurrentConfig
from pipelines.model.state import StreamState
from pipelines.model.transformer.embedding import Embedding


class RecurrentState(NamedTuple):
    """What the GRU remembers."""

    hidden: Tensor  # (B, layers, width)


class RecurrentModel(ContinualModel):
    """Class scores for a stream of tokens."""

    config: RecurrentConfig

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config.input_width, config.embedding, config.dropout, config.input_dropout)
        self.gru = Gru(config.embedding, config.width, config.layers, batch_first=True)
        self.classifier = Projection(config.width, config.classes)

    def forward(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        """(B, T, input_width) of any length, from the zero state, to the newest token's logits (B, classes)."""
        rows, _ = self.gru(self.embedding(tokens))
        return self._classified(rows[:, -1])

    def initial_state(self, batch_size: int = 1, start: int | Tensor = 0) -> StreamState:
        position, offset = self._places(batch_size, start)
        hidden = self._like.new_zeros(batch_size, self.config.layers, self.config.width)
        return StreamState(position, offset, (RecurrentState(hidden),), None)

    def _step_(self, token: Tensor, state: StreamState, active: Tensor | None) -> tuple[Tensor, StreamState]:
        hidden = _hidden(state)
        row = self.embedding(token)
        after = []
        for layer in range(self.config.layers):
            row = self.gru.cell(layer, row, hidden[:, layer])
            after.append(row)
        new = torch.stack(after, dim=1)
        if active is not None:
            new = torch.where(active.view(-1, 1, 1), new, hidden)
        return self._classified(row), _moved(state, new, 1 if active is None else active)

    def _steps(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        rows, hidden = self.gru(self.embedding(tokens), _hidden(state).transpose(0, 1).contiguous())
        return self._classified(rows), _moved(state, hidden.transpose(0, 1).contiguous(), tokens.shape[1])

    @property
    def takes_chunks(self) -> bool:
        return True

    @property
    def input_layers(self) -> tuple[Projection, ...]:
        return (self.embedding.linear,)

    def _classified(self, rows: Tensor) -> Tensor:
        return self.classifier.project(torch.relu(rows))


def _hidden(state: StreamState) -> Tensor:
    memory = state.blocks[0]
    assert isinstance(memory, RecurrentState)
    return memory.hidden


def _moved(state: StreamState, hidden: Tensor, tokens: int | Tensor) -> StreamState:
    return state._replace(position=state.position + tokens, blocks=(RecurrentState(hidden),))
