"""The whole model: embedding, encoder, final norm, classifier and, for OadTR, the decoder."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.errors import InputError
from pipelines.model.attention.ring import cursor_for
from pipelines.model.attention.window_cursor import WindowCursor
from pipelines.model.continual_model import ContinualModel, Prediction
from pipelines.model.linear.projection import Projection
from pipelines.model.state import StreamState
from pipelines.model.transformer.block import Block
from pipelines.model.transformer.config import ModelConfig
from pipelines.model.transformer.decoder import Decoder
from pipelines.model.transformer.embedding import Embedding
from pipelines.model.transformer.encoder import ContinualEncoder
from pipelines.model.transformer.reading import Reading, ReadingState
from pipelines.model.transformer.recall import Recall, RecallState


class Token(NamedTuple):
    """A token, or several, on the way into the encoder."""

    token: Tensor  # (…, d) what enters
    embedding: Tensor  # (…, e) what it was made of: the same where there is no embedding


class ContinualTransformer(ContinualModel):
    """Class scores for a stream of tokens: `model(window)`, `model.step(token, state)`, `model.steps(chunk, state)`."""

    config: ModelConfig
    decoder: Decoder | None

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        inputs = config.input_width
        self.embedding = None
        if config.embedding is not None:
            self.embedding = Embedding(inputs, config.embedding, config.embedding_dropout, config.input_dropout)
            inputs = config.embedding
        # An embedding of the encoder's own width is the token already.
        self.input_projection = None
        if self.embedding is None or inputs != config.width:
            self.input_projection = Projection(inputs, config.width)
        self.encoder = ContinualEncoder(config)
        self.final_norm = nn.LayerNorm(config.width) if config.final_norm else None
        self.decoder = Decoder(config) if config.decoder_blocks else None
        self.classifier = Projection(config.classifier_width, config.classes)
        self.recall = Recall(config) if config.recall else None
        self.reading = Reading(config) if config.reading else None

    # ---- the regular model ---------------------------------------------------------------------------------

    def forward(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        """The regular model on a window: (B, T <= window, input_width) to the newest token's logits (B, classes).

        start: index in the stream of the window's first token, which recycling encodings need; one for all or (B,). A
        model that recalls takes any T, and knows no answers before the first of them.
        """
        if self.recall is not None and not self.training:
            encoder_state = self.encoder.initial_state(tokens.shape[0], start)
            return self.recall.newest(self._encoded(tokens, encoder_state)[0])
        token = self._token(tokens)
        rows = self._normed(self.encoder(token.token, start))
        newest = self.encoder.newest(rows)
        if self.decoder is not None:
            return self._decode(newest, rows, None).logits
        logits = self._classify(newest, Token(*(part[:, -1] for part in token)))
        return logits if self.reading is None or self.training else self.reading.newest(logits, tokens)

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

    def windows(self, tokens: Tensor, start: Tensor, streams: Tensor, lasts: Tensor) -> tuple[Tensor, Tensor | None]:
        if (obstacle := self.config.sharing_obstacle) is not None:
            raise InputError(f"{obstacle}: use steps")
        entering = self._token(tokens)
        cursor = WindowCursor(streams, lasts, self.config.window)
        newest, rows = self.encoder.windows(entering.token, start, cursor)
        newest = self._normed(newest)
        if rows is None:
            logits = self._classify(newest, Token(*(part[streams, lasts] for part in entering)))
            if self.reading is not None and not self.training:
                logits = self.reading.at(logits, tokens, streams, lasts)
            return logits, None
        return self._decode(newest, self._normed(rows.rows), cursor.mask(rows.lead))

    # ---- continual inference -------------------------------------------------------------------------------

    def initial_state(self, batch_size: int = 1, start: int | Tensor = 0) -> StreamState:
        return self._with_answers(self.encoder.initial_state(batch_size, start))

    def traced_state(self, batch_size: int = 1) -> StreamState:
        return self._with_answers(self.encoder.initial_state(batch_size, cached=True))

    def _with_answers(self, state: StreamState) -> StreamState:
        """The encoder's state before its first token, and nothing recalled or read yet: the last of its blocks."""
        remembered = self.recall or self.reading
        if remembered is None:
            return state
        return state._replace(blocks=(*state.blocks, remembered.empty(state.batch_size, self._like)))

    def _step_(self, token: Tensor, state: StreamState, active: Tensor | None) -> tuple[Tensor, StreamState]:
        if self.decoder is not None:
            prediction, state = self._step_predict_(token, state, active)
            return prediction.logits, state
        remembered = self.recall or self.reading
        if remembered is None or self.training:
            return self._step_encoded_(token, state, active)
        cursor = cursor_for(state.position, remembered.rows, active)  # before the step, which moves the position on
        logits, state = self._step_encoded_(token, state, active)
        answers = state.blocks[-1]  # the encoder steps in those before it
        if isinstance(remembered, Reading):
            return remembered.step_(logits, token, cast(ReadingState, answers), cursor), state
        return remembered.step_(logits, cast(RecallState, answers), cursor), state

    def expect(self, state: StreamState) -> None:
        self.encoder.expect(state)

    def _step_some_(self, tokens: Tensor, state: StreamState, streams: Sequence[int]) -> Tensor:
        if self.decoder is None and self.recall is None and self.reading is None:
            entering = self._token(tokens)
            rows = self.encoder.step_some_(entering.token, state, torch.tensor(streams, dtype=torch.long, device="cpu"))
            if rows is not None:
                return self._classify(self._normed(rows), entering)
        return super()._step_some_(tokens, state, streams)

    def _step_encoded_(self, token: Tensor, state: StreamState, active: Tensor | None) -> tuple[Tensor, StreamState]:
        """What the encoder's row says."""
        entering = self._token(token)
        row, state = self.encoder.step_(entering.token, state, active)
        return self._classify(self._normed(row), entering), state

    def step_predict_(
        self, token: Tensor, state: StreamState, active: Tensor | None = None
    ) -> tuple[Prediction, StreamState]:
        decoder_of(self)
        self._check(token, state.batch_size, active)
        return self._step_predict_(token, state, active)

    def _step_predict_(
        self, token: Tensor, state: StreamState, active: Tensor | None
    ) -> tuple[Prediction, StreamState]:
        newest, rows, mask, state = self.encoder.step_rows_(self._token(token).token, state, active)
        return self._decode(self._normed(newest), self._normed(rows), mask), state

    def _steps(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        if self.decoder is not None:
            state = state.clone()
            outputs = []
            # What autograd has saved of one step must not be overwritten by the next.
            advance = self.step if torch.is_grad_enabled() else self.step_
            for token in tokens.unbind(1):
                newest, state = advance(token, state)
                outputs.append(newest)
            return torch.stack(outputs, dim=1), state
        remembered = self.recall or self.reading
        if remembered is None:
            return self._encoded(tokens, state)
        answers, position = state.blocks[-1], state.position
        logits, state = self._encoded(tokens, state._replace(blocks=state.blocks[:-1]))
        if self.training:
            pass
        elif isinstance(remembered, Reading):
            logits, answers = remembered.steps(logits, tokens, cast(ReadingState, answers), position)
        else:
            logits, answers = remembered.steps(logits, cast(RecallState, answers), position)
        return logits, state._replace(blocks=(*state.blocks, answers))

    def _encoded(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        """What the encoder's rows say (B, T, classes); `state` is that of the encoder alone."""
        entering = self._token(tokens)
        rows, state = self.encoder.steps(entering.token, state)
        return self._classify(self._normed(rows), entering), state

    # ---- parts ---------------------------------------------------------------------------------------------

    @property
    def takes_chunks(self) -> bool:
        return self.encoder.banded

    @property
    def input_layers(self) -> tuple[Projection, ...]:
        first = self.embedding.linear if self.embedding is not None else cast(Projection, self.input_projection)
        return (first,) if self.reading is None else (first, self.reading.linear)

    def project_input(self, tokens: Tensor) -> Tensor:
        """Features (…, input_width) to the tokens (…, d) that enter the encoder."""
        return self._token(tokens).token

    def _token(self, tokens: Tensor) -> Token:
        if self.embedding is None and self.training and self.config.input_dropout:
            tokens = F.dropout(tokens, self.config.input_dropout)
        embedded = tokens if self.embedding is None else self.embedding(tokens)
        projection = self.input_projection
        token = embedded if projection is None else projection.project(embedded)
        return Token(token, token if self.embedding is None else embedded)

    def _classify(self, rows: Tensor, newest: Token) -> Tensor:
        """Logits of rows (…, d) after the final norm; newest: the tokens that came in with them."""
        if self.config.shortcut == "concatenate":
            rows = torch.cat([rows, newest.embedding], dim=-1)
        elif self.config.shortcut == "add":
            rows = rows + newest.token
        return self.classifier.project(rows)

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


def decoder_of(model: ContinualTransformer) -> Decoder:
    """The model's decoder, or a clear error."""
    if model.decoder is None:
        raise InputError("this model has no decoder, so it anticipates nothing: use forward or step")
    return model.decoder
