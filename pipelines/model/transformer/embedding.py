"""What stands in front of an encoder: features of a token in, the token that the encoder reads out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.model.linear.projection import Projection


class Embedding(nn.Module):
    """Linear, layer norm, ReLU and dropout: (…, input_width) to (…, width). Every token on its own."""

    def __init__(self, input_width: int, width: int, dropout: float, input_dropout: float = 0.0) -> None:
        super().__init__()
        self.linear = Projection(input_width, width)
        self.norm = nn.LayerNorm(width)
        self.dropout, self.input_dropout = dropout, input_dropout

    def forward(self, tokens: Tensor) -> Tensor:
        if self.training and self.input_dropout:
            tokens = F.dropout(tokens, self.input_dropout)
        rows = torch.relu(self.norm(self.linear(tokens)))
        return F.dropout(rows, self.dropout) if self.training and self.dropout else rows
