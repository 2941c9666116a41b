"""What every kind of model can do: a window, one step, many steps, state as a value, snapshots.

    logits = model(window)                       # the regular model: (B, T, input_width) to (B, classes)
    state = model.initial_state(batch_size)      # one row per stream
    logits, state = model.step(token, state)     # (B, input_width) to (B, classes), the same numbers
    logits, state = model.steps(tokens, state)   # (B, T, input_width) to (B, T, classes), the same again

What a step and a window cost is counted in `pipelines/costs`, by kind.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pipelines.errors import ConfigurationError, InputError, NonFiniteInputError
from pipelines.model.base_config import BaseConfig
from pipelines.model.linear.projection import Projection
from pipelines.model.snapshot import restore_state, save_state
from pipelines.model.state import StreamState


class Prediction(NamedTuple):
    """What a model with a decoder says at one step."""

    logits: Tensor  # (B, classes)
    anticipation: Tensor  # (B, decoder_queries, classes): coming frames, nearest first


class ContinualModel(nn.Module):
    """Class scores for a stream of tokens. A kind implements what is abstract here."""

    config: BaseConfig
    classifier: Projection  # the layer that names the classes
    decoder: nn.Module | None  # what anticipates coming frames

    def __init__(self) -> None:
        super().__init__()
        self.decoder = None

    # ---- the regular model ---------------------------------------------------------------------------------

    @abstractmethod
    def forward(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        """The regular model on a window: (B, T, input_width) to the newest token's logits (B, classes).

        start: index in the stream of the window's first token, which recycling encodings need; one for all or (B,).
        """

    def predict(self, tokens: Tensor, start: int | Tensor = 0) -> Prediction:
        """`forward` with the decoder's anticipation."""
        raise InputError("this model has no decoder, so it anticipates nothing: use forward or step")

    def windows(self, tokens: Tensor, start: Tensor, streams: Tensor, lasts: Tensor) -> tuple[Tensor, Tensor | None]:
        """The regular model on many windows of a chunk (B, T, input_width), which share what belongs to a token alone.

        start: (B,) as in `forward`. streams, lasts: (K,) of which row of the chunk each window is, and its last token;
        it holds the n tokens that end there, or fewer at the chunk's beginning. Logits (K, classes), and a decoder's
        anticipation (K, queries, classes).
        """
        raise InputError(f"{self.config.sharing_obstacle}: use steps")

    def with_lag(self, lag: int) -> ContinualModel:
        """A model of the same weights, which both share, that speaks of the token `lag` steps ago."""
        if lag != self.config.lag:
            raise ConfigurationError(f"a {self.config.kind} model has no lag")
        return self

    # ---- continual inference -------------------------------------------------------------------------------

    @abstractmethod
    def initial_state(self, batch_size: int = 1, start: int | Tensor = 0) -> StreamState:
        """The state of `batch_size` streams before their first token; `start` as in `forward`."""

    def traced_state(self, batch_size: int = 1) -> StreamState:
        """`initial_state` for a step that is traced into a graph: as exact, without branches on values."""
        return self.initial_state(batch_size)

    def step(self, token: Tensor, state: StreamState, active: Tensor | None = None) -> tuple[Tensor, StreamState]:
        """One token (B, input_width) in, logits (B, classes) out. `state` is left as it is.

        active: (B,) bool; rows that are not active keep their state, and their logits mean nothing.
        """
        return self.step_(token, state.clone(), active)

    def step_(self, token: Tensor, state: StreamState, active: Tensor | None = None) -> tuple[Tensor, StreamState]:
        """`step` for a caller who owns `state`: it may be written in place."""
        self._check(token, state.batch_size, active)
        return self._step_(token, state, active)

    def expect(self, state: StreamState) -> None:
        """The next steps will be of this state, in place: a model may make ready for them.

        Without it, a model finds out at the second of them, and the first may round differently.
        """

    def step_some_(self, tokens: Tensor, state: StreamState, streams: Sequence[int]) -> Tensor:
        """`step_` for some streams of a batch: tokens (k, input_width) of these rows of `state` to logits (k, classes).

        NonFiniteInputError names rows of `state`.
        """
        if len({*streams}) < len(streams) or not all(0 <= row < state.batch_size for row in streams):
            raise InputError(f"rows {list(streams)} are not different ones of a state of {state.batch_size}")
        try:
            self._check(tokens, len(streams), None)
        except NonFiniteInputError as error:
            raise NonFiniteInputError([streams[row] for row in error.rows]) from None
        return self._step_some_(tokens, state, streams)

    def _step_some_(self, tokens: Tensor, state: StreamState, streams: Sequence[int]) -> Tensor:
        logits, part = self._step_(tokens, state.select(streams), None)
        state.put_(streams, part)
        return logits

    def step_predict_(
        self, token: Tensor, state: StreamState, active: Tensor | None = None
    ) -> tuple[Prediction, StreamState]:
        """`step_` with the decoder's anticipation."""
        raise InputError("this model has no decoder, so it anticipates nothing: use forward or step")

    def steps(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        """T tokens (B, T, input_width) in, logits (B, T, classes) out: the same as T steps. `state` stays as it is."""
        self._check(tokens, state.batch_size, None)
        if not tokens.shape[1]:
            return tokens.new_zeros(tokens.shape[0], 0, self.config.classes), state
        return self._steps(tokens, state)

    @abstractmethod
    def _step_(self, token: Tensor, state: StreamState, active: Tensor | None) -> tuple[Tensor, StreamState]:
        """`step_` on tokens that have been checked."""

    @abstractmethod
    def _steps(self, tokens: Tensor, state: StreamState) -> tuple[Tensor, StreamState]:
        """`steps` on one or more tokens that have been checked."""

    # ---- state ---------------------------------------------------------------------------------------------

    def reset_(self, state: StreamState, rows: list[int]) -> StreamState:
        """Set the given rows back to before their first token, in place."""
        return state.put_(rows, self.initial_state(len(rows)))

    def snapshot(self, state: StreamState, path: Path) -> None:
        """Write a state to a file that `restore` reads."""
        save_state(state, self.config, path)

    def restore(self, path: Path) -> StreamState:
        """Read a state that `snapshot` wrote; refused when it belongs to another configuration."""
        return restore_state(path, self.config, self.initial_state)

    # ---- what others need to know --------------------------------------------------------------------------

    @property
    def takes_chunks(self) -> bool:
        """Whether `steps` takes many tokens in one pass. If not, it takes one after the other."""
        return False

    @property
    @abstractmethod
    def input_layers(self) -> tuple[Projection, ...]:
        """The linear layers that features enter, which standardising can be folded into."""

    @property
    def device(self) -> torch.device:
        return self._like.device

    @property
    def dtype(self) -> torch.dtype:
        """That of tokens, state and logits; weights may have another (`linear/packing.py`)."""
        return self._like.dtype

    @property
    def _like(self) -> Tensor:
        """A tensor with the device and the precision of activations and state."""
        return self.classifier.bias

    def _places(self, batch_size: int, start: int | Tensor) -> tuple[Tensor, Tensor]:
        """Position and offset of a state before its first token: two (B,)."""
        if batch_size < 1:
            raise ConfigurationError(f"batch_size must be at least 1, not {batch_size}")
        offset = torch.as_tensor(start, dtype=torch.long, device=self.device).expand(batch_size).contiguous().clone()
        return torch.zeros(batch_size, dtype=torch.long, device=self.device), offset

    def _check(self, tokens: Tensor, streams: int, active: Tensor | None) -> None:
        """Refuse tokens of the wrong shape, and NaN or infinity with the rows that they stand in."""
        if torch.compiler.is_compiling():
            return
        if tokens.shape[-1] != self.config.input_width or tokens.shape[0] != streams:
            raise InputError(
                f"tokens are {tuple(tokens.shape)}, but the model takes {streams} streams of width "
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
