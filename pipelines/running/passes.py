"""One pass of a model over recordings that are in memory: by steps, by chunks, by windows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pipelines.errors import NonFiniteInputError
from pipelines.model.continual_model import ContinualModel

_CHUNK_TOKENS = 4096  # tokens of all rows of a batch that go through `steps` in one go
_WINDOW_FLOATS = 1 << 23  # features in a batch of windows: 32 MB
_FLOATS = 1 << 25  # of features in memory at once: 128 MB

K = TypeVar("K")


@dataclass(frozen=True)
class Outputs:
    """What a model says about one recording."""

    logits: NDArray[np.float32]  # (rows, classes), at each row
    anticipation: NDArray[np.float32] | None = None  # (rows, horizons, classes), models with a decoder
    late: Outputs | None = None  # about the last rows, which a model with a lag still owes at the end

    def about_rows(self, lag: int) -> Outputs:
        """The same by the row that each is about: those at the rows, `lag` of them later, and then the late ones."""
        if not lag or self.late is None:
            return Outputs(self.logits[lag:], None if self.anticipation is None else self.anticipation[lag:])
        logits = np.concatenate([self.logits[lag:], self.late.logits])
        if self.anticipation is None or self.late.anticipation is None:
            return Outputs(logits)
        return Outputs(logits, np.concatenate([self.anticipation[lag:], self.late.anticipation]))


def stream_pass(model: ContinualModel, tokens: Tensor, seconds: list[float]) -> Outputs:
    """Step by step. tokens: (T, width). Appends the time of each step to `seconds`."""
    state = model.initial_state(1)
    logits: list[Tensor] = []
    ahead: list[Tensor] = []
    for token in tokens.unsqueeze(1).unbind(0):
        begin = time.perf_counter()
        if model.decoder is None:
            scores, state = model.step_(token, state)
        else:
            prediction, state = model.step_predict_(token, state)
            scores = prediction.logits
            ahead.append(prediction.anticipation)
        if scores.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        logits.append(scores)
    return _outputs(torch.cat(logits), torch.cat(ahead) if ahead else None)


def chunk_pass(model: ContinualModel, recordings: Sequence[Tensor]) -> list[Outputs]:
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
            scores, state = model.steps(part, state)
            logits.append(scores)
    else:
        for token in tokens.unbind(1):
            prediction, state = model.step_predict_(token, state)
            logits.append(prediction.logits.unsqueeze(1))
            ahead.append(prediction.anticipation.unsqueeze(1))
    joined = torch.cat(logits, dim=1)
    joined_ahead = torch.cat(ahead, dim=1) if ahead else None
    return [
        _outputs(joined[row, :length], None if joined_ahead is None else joined_ahead[row, :length])
        for row, length in enumerate(map(len, recordings))
    ]


def window_pass(
    model: ContinualModel,
    recordings: Sequence[Tensor],
    frames: Sequence[Sequence[int]] | None = None,
    before: Sequence[int] | None = None,
) -> list[Outputs]:
    """The regular model on the tokens that its output at each of `frames` depends on. recordings: (T_i, width) each.

    For most these are the last n. A model that depends on its whole past goes over a recording in one pass.

    frames: for each recording, the tokens at which an output is wanted, ascending; None: at every one. before: how many
    tokens came before the first that is given, of which no output depends on more than their number; None: none.
    Windows of one length go together, whichever recordings they are of.
    """
    _check_finite(recordings)
    reach = model.config.receptive_field
    if reach is None:
        return [_whole(model, tokens, None if frames is None else frames[row]) for row, tokens in enumerate(recordings)]
    places: dict[int, list[tuple[int, int]]] = {}  # length of the window -> (recording, last token)
    for row, tokens in enumerate(recordings):
        for last in range(len(tokens)) if frames is None else frames[row]:
            places.setdefault(min(reach, last + 1), []).append((row, last))
    logits: list[list[Tensor]] = [[] for _ in recordings]
    ahead: list[list[Tensor]] = [[] for _ in recordings]
    for length in sorted(places):  # short windows stand first in their recording
        size = max(1, _WINDOW_FLOATS // (length * recordings[0].shape[1]))
        for begin in range(0, len(places[length]), size):
            part = places[length][begin : begin + size]
            windows = torch.stack([recordings[row][last + 1 - length : last + 1] for row, last in part])
            # A continual model meets these windows with the encoding of their place in the stream.
            earlier = [0 if before is None else before[row] for row, _ in part]
            start = torch.tensor(
                [passed + last + 1 - length for passed, (_, last) in zip(earlier, part, strict=True)],
                device=windows.device,
            )
            output, anticipation = _regular(model, windows, start)
            for index, (row, _) in enumerate(part):
                logits[row].append(output[index])
                if anticipation is not None:
                    ahead[row].append(anticipation[index])
    return [
        _outputs(torch.stack(rows), torch.stack(further) if further else None)
        for rows, further in zip(logits, ahead, strict=True)
    ]


def late_pass(
    model: ContinualModel, recordings: Sequence[Tensor], before: Sequence[int] | None = None
) -> list[Outputs]:
    """About the last rows of recordings (T_i, width), up to `lag` of them, for which nothing more comes.

    What the regular model says about them on the last window: each is the answer of the same model with the smaller
    lag at which it speaks of that row when the recording ends. before: as in `window_pass`.
    """
    parts: list[list[Outputs]] = [[] for _ in recordings]
    for lag in reversed(range(model.config.lag)):
        members = [row for row, tokens in enumerate(recordings) if len(tokens) > lag]
        tokens = [recordings[row] for row in members]
        last = [[len(rows) - 1] for rows in tokens]
        earlier = None if before is None else [before[row] for row in members]
        results = window_pass(model.with_lag(lag), tokens, last, earlier) if members else []
        for row, output in zip(members, results, strict=True):
            parts[row].append(output)
    return [
        Outputs(
            np.concatenate([part.logits for part in late]),
            None if late[0].anticipation is None else np.concatenate([_ahead(part) for part in late]),
        )
        for late in parts
    ]


def side_by_side(lengths: Mapping[K, int], most: int, width: int) -> Iterator[list[K]]:
    """Groups of recordings of similar length, shortest first, bounded in number and in memory.

    lengths: rows of each recording. Equal lengths keep their order.
    """
    group: list[K] = []
    for key in sorted(lengths, key=lengths.__getitem__) if most > 1 else lengths:
        # Shorter ones are padded to the longest of the group, which is the newest.
        if group and (len(group) == most or (len(group) + 1) * lengths[key] * width > _FLOATS):
            yield group
            group = []
        group.append(key)
    if group:
        yield group


def _whole(model: ContinualModel, tokens: Tensor, frames: Sequence[int] | None) -> Outputs:
    """From the first token (T, width) on, in one piece."""
    logits, _ = model.steps(tokens.unsqueeze(0), model.initial_state(1))
    return _outputs(logits[0] if frames is None else logits[0, list(frames)], None)


def _regular(model: ContinualModel, windows: Tensor, start: Tensor) -> tuple[Tensor, Tensor | None]:
    if model.decoder is None:
        return model(windows, start), None
    prediction = model.predict(windows, start)
    return prediction.logits, prediction.anticipation


def _ahead(output: Outputs) -> NDArray[np.float32]:
    assert output.anticipation is not None
    return output.anticipation


def _check_finite(recordings: Sequence[Tensor]) -> None:
    """`step` and `steps` refuse NaN; the regular model does not look."""
    broken = [row for row, tokens in enumerate(recordings) if not bool(tokens.isfinite().all())]
    if broken:
        raise NonFiniteInputError(broken)


def _outputs(logits: Tensor, ahead: Tensor | None) -> Outputs:
    return Outputs(logits.float().cpu().numpy(), None if ahead is None else ahead.float().cpu().numpy())
