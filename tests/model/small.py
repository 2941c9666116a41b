"""Small seeded models for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pipelines.model import ContinualModel, ContinualTransformer, ModelConfig
from pipelines.model.base_config import BaseConfig
from pipelines.model.kinds import settings_of
from pipelines.model.presets import PRESETS, preset
from pipelines.model.state import StreamState

SIZES = {"input_width": 6, "width": 8, "heads": 2, "feed_forward": 12, "window": 4, "classes": 3}

# Every positional encoding, by name.
POSITIONAL: dict[str, dict[str, Any]] = {
    "none": {"positional": "none"},
    "static": {"positional": "static"},
    "static n+1": {"positional": "static", "positions": 5},
    "learned n": {"positional": "recycling", "positions": 4},
    "learned 2n-1": {"positional": "recycling"},
    "cyclic n": {"positional": "recycling", "positions": 4, "encoding": "cyclic"},
    "cyclic 2n-1": {"positional": "recycling", "encoding": "cyclic"},
    "relative": {"positional": "relative"},
    "rope": {"positional": "rope"},
    "alibi": {"positional": "alibi"},
}


def exists(positional: str, blocks: int, class_token_block: int | None = None) -> bool:
    """Whether an exact stack has such a model; `test_config` checks what is said where it has not."""
    return not (
        (positional == "relative" and blocks > 1)
        or (positional == "rope" and class_token_block is not None)
        or (positional == "alibi" and blocks > 1 and class_token_block == 1)
    )


def small_preset(name: str, **sizes: Any) -> BaseConfig:
    """A preset with those of the sizes that its kind has."""
    return preset(name, **{key: size for key, size in sizes.items() if key in settings_of(PRESETS[name].kind)})


def small_model(dtype: torch.dtype = torch.float32, **changes: Any) -> ContinualTransformer:
    """A model in evaluation mode whose every parameter matters (norms and tokens are not at their initial values)."""
    torch.manual_seed(0)
    model = ContinualTransformer(ModelConfig(**{**SIZES, "blocks": 1, **changes})).to(dtype).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1 or parameter is model.encoder.class_token:
            nn.init.normal_(parameter, mean=0.5, std=0.5)
    for block in model.encoder.blocks:
        if block.age_bias is not None:
            nn.init.normal_(block.age_bias)
    if model.reading is not None:
        nn.init.normal_(model.reading.linear.weight)
    positions = model.encoder.positions
    if positions is not None and isinstance(positions.table, nn.Parameter):
        nn.init.normal_(positions.table)
    return model


def stream(batch: int, length: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> Tensor:
    """Tokens (B, length, input_width)."""
    return torch.randn(batch, length, SIZES["input_width"], dtype=dtype, generator=torch.Generator().manual_seed(seed))


def run_steps(model: ContinualTransformer, tokens: Tensor, state: StreamState | None = None) -> Tensor:
    """Logits (B, T, classes) of stepping through tokens (B, T, input_width)."""
    state = model.initial_state(tokens.shape[0]) if state is None else state
    outputs = []
    with torch.no_grad():
        for token in tokens.unbind(1):
            logits, state = model.step(token, state)
            outputs.append(logits)
    return torch.stack(outputs, dim=1)


def run_windows(model: ContinualTransformer, tokens: Tensor) -> Tensor:
    """Logits (B, T, classes) of the regular model on the last min(t, n) tokens, for every t."""
    n = model.config.window
    outputs = []
    with torch.no_grad():
        for t in range(tokens.shape[1]):
            start = max(0, t + 1 - n)
            outputs.append(model(tokens[:, start : t + 1], start=start))
    return torch.stack(outputs, dim=1)


def relative_error(value: Tensor, reference: Tensor) -> float:
    """Largest difference relative to the largest reference value."""
    return ((value - reference).abs().max() / reference.abs().max()).item()


def joined_states(states: Sequence[StreamState]) -> StreamState:
    """The rows of several states of one model as one state."""
    columns = iter([torch.cat(column) for column in zip(*(state.tensors() for state in states), strict=True)])
    return states[0].map(lambda _: next(columns))


def check_rows_are_independent(
    model: ContinualModel, tokens: Tensor, alone: Tensor, schedule: Sequence[tuple[bool, ...]], reset: int
) -> None:
    """Three streams that pause at different times, one of which starts again, give what each gives alone.

    tokens (3, T, width), float64; alone (3, T, classes): what each stream gives by itself. schedule: which of them have
    a token at each moment; at moment `reset` the second one starts again.
    """
    state, place = model.initial_state(3), [0, 0, 0]
    for moment, row_active in enumerate(schedule):
        if moment == reset:
            model.reset_(state, [1])
            place[1] = 0
        active = torch.tensor(row_active)
        token = torch.stack([tokens[row, place[row]] for row in range(3)])
        token[~active] = torch.nan  # what a stream that pauses holds must not matter
        with torch.no_grad():
            logits, state = model.step(token, state, active)
        for row in range(3):
            if row_active[row]:
                torch.testing.assert_close(logits[row], alone[row, place[row]], rtol=1e-10, atol=1e-10)
                place[row] += 1


def by_value(model: ContinualTransformer, tokens: Tensor) -> Tensor:
    """Logits (T, classes) of tokens (1, T, input_width), step by step, each state left as it is."""
    state, outputs = model.initial_state(1), []
    for token in tokens.unbind(1):
        logits, state = model.step(token, state)
        outputs.append(logits)
    return torch.cat(outputs)
