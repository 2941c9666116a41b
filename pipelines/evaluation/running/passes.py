"""One pass of a model over recordings that are in memory: by steps, by chunks, by windows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pipelines.errors import NonFiniteInputError
from pipelines.model.transformer import ContinualTransformer

_CHUNK_TOKENS = 4096  # tokens of all rows of a batch that go through `steps` in one go
_WINDOW_FLOATS = 1 << 23  # features in a batch of windows: 32 MB


@dataclass(frozen=True)
class Outputs:
    """What a model says about one recording."""

    logits: NDArray[np.float32]  # (rows, classes)
    anticipation: NDArray[np.float32] | None = None  # (rows, horizons, classes), models with a decoder


def stream_pass(model: ContinualTransformer, tokens: Tensor, seconds: list[float]) -> Outputs:
    """Step by step. tokens: (T, width). Appends the time of each step to `seconds`."""
    state = model.initial_state(1)
    logits: list[Tensor] = []
    ahead: list[Tensor] = []
    for token in tokens.unsqueeze(1).unbind(0):
        begin = time.perf_counter()
        if model.decoder is None:
            one, state = model.step_(token, state)
        else:
            prediction, state = model.step_predict_(token, state)
            one = prediction.logits
            ahead.append(prediction.anticipation)
        if one.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        logits.append(one)
    return _outputs(torch.cat(logits), torch.cat(ahead) if ahead else None)


def chunk_pass(model: ContinualTransformer, recordings: Sequence[Tensor]) -> list[Outputs]:
    """Many steps at once. recordings: (T_i, width) each; they run side by side, padded at the end.

    What follows the end of a recording cannot change what came before it.
    """
    tokens = pad_sequence(list(recordings), batch_first=True)
    batch = len(recordings)
    state = model.initial_state(batch)
    logits: list[Tensor] = []
    ahead: list[Tensor] = []
    if model.decoder is None:
        for part in torch.split(tokens, max(64, _CHUNK_TOKENS // batch), dim=1):
            one, state = model.steps(part, state)
            logits.append(one)
    else:
        for token in tokens.unbind(1):
            prediction, state = model.step_predict_(token, state)
            logits.append(prediction.logits.unsqueeze(1))
            ahead.append(prediction.anticipation.unsqueeze(1))
    joined = torch.cat(logits, dim=1)
    joined_ahead = torch.cat(ahead, dim=1) if ahead else None
    return [
        _outputs(joined[row, : len(one)], None if joined_ahead is None else joined_ahead[row, : len(one)])
        for row, one in enumerate(recordings)
    ]


def window_pass(model: ContinualTransformer, recordings: Sequence[Tensor]) -> list[Outputs]:
    """The regular model on the last n tokens at every step. recordings: (T_i, width) each.

    The first windows of all recordings are equally short and go together; the full ones go in batches.
    """
    _check_finite(recordings)
    reach = receptive_field(model)
    heads = _warm_up(model, recordings, reach)
    results = []
    for row, tokens in enumerate(recordings):
        parts = [(logits[row], None if ahead is None else ahead[row]) for logits, ahead in heads[: len(tokens)]]
        logits = [torch.stack([one for one, _ in parts])] if parts else []
        ahead = [torch.stack([one for _, one in parts if one is not None])] if parts and model.decoder else []
        if len(tokens) >= reach:
            windows = tokens.unfold(0, reach, 1).transpose(1, 2)  # (T − reach + 1, reach, width), a view
            starts = torch.arange(len(windows), device=tokens.device)
            size = max(1, _WINDOW_FLOATS // (reach * tokens.shape[1]))
            for part, start in zip(torch.split(windows, size), torch.split(starts, size), strict=True):
                one, more = _regular(model, part.contiguous(), start)
                logits.append(one)
                if more is not None:
                    ahead.append(more)
        results.append(_outputs(torch.cat(logits), torch.cat(ahead) if ahead else None))
    return results


def receptive_field(model: ContinualTransformer) -> int:
    """Tokens that an output depends on: the window, or, in a deep stack, a window further back for each block."""
    config = model.config
    return config.blocks * (config.window - 1) + 1 if config.stacking == "deep" else config.window


def _warm_up(
    model: ContinualTransformer, recordings: Sequence[Tensor], reach: int
) -> list[tuple[Tensor, Tensor | None]]:
    """Outputs for the first 1, 2, … reach − 1 tokens, rows in the order of the recordings.

    Recordings that have ended are padded; their rows are not used.
    """
    tokens = pad_sequence([one[: reach - 1] for one in recordings], batch_first=True)
    return [_regular(model, tokens[:, :length], 0) for length in range(1, tokens.shape[1] + 1)]


def _regular(model: ContinualTransformer, windows: Tensor, start: int | Tensor) -> tuple[Tensor, Tensor | None]:
    if model.decoder is None:
        return model(windows, start), None
    prediction = model.predict(windows, start)
    return prediction.logits, prediction.anticipation


def _check_finite(recordings: Sequence[Tensor]) -> None:
    """`step` and `steps` refuse NaN; the regular model does not look."""
    broken = [row for row, tokens in enumerate(recordings) if not bool(tokens.isfinite().all())]
    if broken:
        raise NonFiniteInputError(broken)


def _outputs(logits: Tensor, ahead: Tensor | None) -> Outputs:
    return Outputs(logits.float().cpu().numpy(), None if ahead is None else ahead.float().cpu().numpy())
