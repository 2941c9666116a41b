"""The whole model: embedding, encoder, final norm, classifier and, for OadTR, the decoder."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.errors import InputError, NonFiniteInputError
from pipelines.model.block import Block
from pipelines.model.config import ModelConfig
from pipelines.model.decoder import Decoder
from pipelines.model.embedding import Embedding
from pipelines.model.encoder import ContinualEncoder
from pipelines.model.snapshot import restore_state, save_state
from pipelines.model.state import StreamState


class Prediction(NamedTuple):
    """What a model with a decoder says at one step."""

    logits: Tensor  # (B, classes)
    anticipation: Tensor  # (B, decoder_queries, classes): coming frames, nearest first


class Token(NamedTuple):
    """A token, or several, on the way into the encoder."""

    token: Tensor  # (…, d) what enters
    embedding: Tensor  # (…, e) what it was made of: the same where there is no embedding


class ContinualTransformer(nn.Module):
    """Class scores for a stream of tokens: `model(window)`, `model.step(token, state)`, `model.steps(chunk, state)`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        inputs = config.input_width
        self.embedding = None
        if config.embedding is not None:
            self.embedding = Embedding(inputs, config.embedding, config.embedding_dropout)
            inputs = config.embedding
        # An embedding of the encoder's own width is the token already.
        self.input_projection = None
        if self.embedding is None or inputs != config.width:
            self.input_projection = nn.Linear(inputs, config.width)
        self.encoder = ContinualEncoder(config)
        self.final_norm = nn.LayerNorm(config.width) if config.final_norm else None
        self.decoder = Decoder(config) if config.decoder_blocks else None
        self.classifier = nn.Linear(config.classifier_width, config.classes)

    # ---- the regular model ---------------------------------------------------------------------------------

    def forward(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        """The regular model on a window: (B, T <= window, input_width) to the newest token's logits (B, classes).

        start: index in the stream of the window's first token, which recycling encodings need; one for all or (B,).
        """
        token = self._token(tokens)
        rows = self._normed(self.encoder(token.token, start))
        newest = self.encoder.newest(rows)
        if self.decoder is not None:
            return self._decode(newest, rows, None).logits
        return self._classify(newest, Token(*(part[:, -1] for part in token)))

    def predict(self, tokens: Tensor, start: int | Tensor = 0) -> Prediction:
        """`forward` with the decoder's anticipation."""
        decoder_of(self)
        rows = self._normed(self.encoder(self._token(tokens).token, start))
        return self._decode(self.encoder.newest(rows), rows, None)

    def with_lag(self, lag: int) -> ContinualTransformer:
        """A model of the same weights, which both share, that speaks of the token `lag` steps ago."""
        shared: dict[int, Any] = {id(tensor): tensor for tensor in (*self.parameters(), *self.buffers())}
        shared[id(self.config)] = replace(self.config, lag=lag)
        twin = copy.deepcopy(self, shared)
        cast(Block, twin.encoder.blocks[-1]).lag = lag
        return twin

    # ---- continual inference -------------------------------------------------------------------------------

    def initial_state(self, batch_size: int = 1, start: int | Tensor = 0) -> StreamState:
        """The state of `batch_size` streams before their first token; `start` as in `forward`."""
        return self.encoder.initial_state(batch_size, start)

    def step(self, token: Tensor, state: StreamState, active: Tensor | None = None) -> tuple[Tensor, StreamState]:
        """One token (B, input_width) in, logits (B, classes) out. `state` is left as it is.

        active: (B,) bool; rows that are not active keep their state, and their logits mean nothing.
        """
        return self.step_(token, state.clone(), active)

    def step_(self, token: Tensor, state: StreamState, active: Tensor | None = None) -> tuple[Tensor, StreamState]:
        """`step` for a caller who owns `state`: its rings are written in place."""
        if self.decoder is not None:
            prediction, state = self.step_predict_(token, state, active)
            return prediction.logits, state
        self._check(token, state, active)
        entering = self._token(token)
        row, state = self.encoder.step_(entering.token, state, active)
        return self._classify(self._normed(row), entering), state

    def step_predict_(
        self, token: Tensor, state: StreamState, active: Tensor | None = None
    ) -> tuple[Prediction, StreamState]:
        """`step_` with the decoder's anticipation."""
        decoder_of(self)
        self._check(token, state, active)
        newest, rows, mask, state = self.encoder.step_rows_(self._token(token).token, state, active)
        return self._decode(self._normed(newest), self._normed(rows), mask), state

    def steps(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        """T tokens (B, T, input_width) in, logits (B, T, classes) out: the same as T steps. `state` stays as it is."""
        self._check(tokens, state, None)
        if not tokens.shape[1]:
            return tokens.new_zeros(tokens.shape[0], 0, self.config.classes), state
        if self.decoder is not None:
            state = state.clone()
            logits = []
            # What autograd has saved of one step must not be overwritten by the next.
            advance = self.step if torch.is_grad_enabled() else self.step_
            for token in tokens.unbind(1):
                one, state = advance(token, state)
                logits.append(one)
            return torch.stack(logits, dim=1), state
        entering = self._token(tokens)
        rows, state = self.encoder.steps(entering.token, state)
        return self._classify(self._normed(rows), entering), state

    def reset_(self, state: StreamState, rows: list[int]) -> StreamState:
        """Set the given rows back to before their first token, in place."""
        return state.put_(rows, self.initial_state(len(rows)))

    def snapshot(self, state: StreamState, path: Path) -> None:
        """Write a state to a file that `restore` reads."""
        save_state(state, self.config, path)

    def restore(self, path: Path) -> StreamState:
        """Read a state that `snapshot` wrote; refused when it belongs to another configuration."""
        return restore_state(path, self.config, self.initial_state)

    # ---- parts ---------------------------------------------------------------------------------------------

    @property
    def first_layer(self) -> nn.Linear:
        """The linear layer that features enter."""
        return self.embedding.linear if self.embedding is not None else cast(nn.Linear, self.input_projection)

    def project_input(self, tokens: Tensor) -> Tensor:
        """Features (…, input_width) to the tokens (…, d) that enter the encoder."""
        return self._token(tokens).token

    def _token(self, tokens: Tensor) -> Token:
        if self.training and self.config.input_dropout:
            tokens = F.dropout(tokens, self.config.input_dropout)
        embedded = tokens if self.embedding is None else self.embedding(tokens)
        projection = self.input_projection
        token = embedded if projection is None else F.linear(embedded, projection.weight, projection.bias)
        return Token(token, token if self.embedding is None else embedded)

    def _classify(self, rows: Tensor, newest: Token) -> Tensor:
        """Logits of rows (…, d) after the final norm; newest: the tokens that came in with them."""
        if self.config.shortcut == "concatenate":
            rows = torch.cat([rows, newest.embedding], dim=-1)
        elif self.config.shortcut == "add":
            rows = rows + newest.token
        return F.linear(rows, self.classifier.weight, self.classifier.bias)

    def _normed(self, rows: Tensor) -> Tensor:
        norm = self.final_norm
        if norm is None:
            return rows
        return torch.layer_norm(rows, norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    def _decode(self, newest: Tensor, rows: Tensor, mask: Tensor | None) -> Prediction:
        """newest: (B, d), rows: (B, m, d), both after the final norm; mask: (B, 1, 1, m) or None."""
        future = decoder_of(self)(rows, mask)  # (B, queries, d)
        logits = self.classifier(torch.cat([newest, future.mean(dim=1)], dim=-1))
        return Prediction(logits, decoder_of(self).classifier(future))

    def _check(self, tokens: Tensor, state: StreamState, active: Tensor | None) -> None:
        """Refuse tokens of the wrong shape, and NaN or infinity with the rows that they stand in."""
        if torch.compiler.is_compiling():
            return
        if tokens.shape[-1] != self.config.input_width or tokens.shape[0] != state.batch_size:
            raise InputError(
                f"tokens are {tuple(tokens.shape)}, but the model takes {state.batch_size} streams of width "
                f"{self.config.input_width}"
            )
        # A sum is finite only if all its terms are; it may overflow though they are, hence the second look.
        if active is None and math.isfinite(tokens.detach().sum().item()):
            return
        broken = ~tokens.isfinite().flatten(1).all(dim=1)
        if active is not None:
            broken = broken & active
        if bool(broken.any()):
            raise NonFiniteInputError(broken.nonzero().flatten().tolist())


def decoder_of(model: ContinualTransformer) -> Decoder:
    """The model's decoder, or a clear error."""
    if model.decoder is None:
        raise InputError("this model has no decoder, so it anticipates nothing: use forward or step")
    return model.decoder
