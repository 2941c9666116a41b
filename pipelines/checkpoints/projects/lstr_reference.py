"""LSTR's and TeSTra's own forward pass on their own weights: what a converted model is compared with.

Written from the definition of the models, a whole window for every frame, in plain functions: no code is shared with
our model. Only the feature heads, which see one frame at a time, are computed once for each frame of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pipelines.checkpoints.foreign_files.imported import Outputs, Reference
from pipelines.errors import UsageError
from pipelines.model.lstr.config import LstrConfig
from pipelines.model.transformer.config import ModelConfig

_BATCH = 16  # windows that are computed at once


@dataclass(frozen=True)
class Window:
    """Which frames of a stream the prediction for one of them is made from."""

    long: tuple[int, ...]  # oldest first; where there are too few, frame 0 is repeated
    masked: int  # how many of them, from the front, are not looked at: all of the repeated but the last
    work: tuple[int, ...]  # oldest first; the last is the frame itself


@dataclass(frozen=True)
class LstrReference:
    """The regular model. weights: by the names of LSTR and TeSTra; what they are in, it computes in."""

    weights: Mapping[str, Tensor]
    config: LstrConfig

    def window(self, frame: int) -> Window:
        """The memories for one frame of a stream. The first frames are the rows of the first window."""
        config = self.config
        row = min(frame // config.work_rate, config.work_samples - 1)
        start = frame - row * config.work_rate
        sampled = range(start - config.long_samples * config.long_rate, start, config.long_rate)
        long = [max(index, 0) for index in sampled]
        return Window(tuple(long), max(long.count(0) - 1, 0), tuple(range(start, frame + 1, config.work_rate)))

    def __call__(self, windows: Tensor, start: int) -> Outputs:
        """The newest frame of each of the windows (B, T, input_width), which begin with their streams."""
        window = self.window(windows.shape[1] - 1)
        long = self._feature_head(windows[:, list(window.long)], "long")
        work = self._feature_head(windows[:, list(window.work)], "work")
        return Outputs(self._scores(long, work, [window.masked] * windows.shape[0]), None)

    def along(self, stream: Tensor, steps: Sequence[int]) -> Iterator[Outputs]:
        """The outputs for the given frames of a stream (T, input_width)."""
        long_rows, work_rows = self._feature_head(stream, "long"), self._feature_head(stream, "work")
        first = 0
        while first < len(steps):
            windows = [self.window(frame) for frame in steps[first : first + _BATCH]]
            alike = [window for window in windows if len(window.work) == len(windows[0].work)]
            windows = alike if windows[: len(alike)] == alike else windows[:1]
            long = long_rows[torch.tensor([window.long for window in windows])]
            work = work_rows[torch.tensor([window.work for window in windows])]
            for row in self._scores(long, work, [window.masked for window in windows]):
                yield Outputs(row.unsqueeze(0), None)
            first += len(windows)

    def changed(self, config: ModelConfig, weights: Mapping[str, Tensor]) -> Reference:
        raise UsageError("an LSTR or TeSTra converts as it is: leave --mode and --drop-decoder out")

    def _scores(self, long: Tensor, work: Tensor, masked: list[int]) -> Tensor:
        """Scores (B, classes) from samples (B, L, d) and work rows (B, m, d). masked: samples that are not seen."""
        config = self.config
        table = self.weights["pos_encoding.pe"].squeeze(1)
        if config.long_positions:
            long = long + table[: config.long_samples]
        if config.work_positions:
            begin = config.long_samples if config.long_positions else 0
            work = work + table[begin : begin + work.shape[1]]
        slots = torch.arange(config.long_samples)
        hidden = slots < torch.tensor(masked).unsqueeze(1)
        bias = long.new_zeros(len(masked), 1, 1, config.long_samples).masked_fill(hidden[:, None, None], -torch.inf)
        if config.decay != 1.0:
            ages = (config.long_samples - 1 - slots).to(long.dtype)
            bias = bias + torch.log(config.decay**ages + 1e-10)
        memory = self._encode(long, bias)
        rows = work
        later = torch.full((work.shape[1],) * 2, -torch.inf, dtype=work.dtype).triu(1)
        seen: Tensor | None = None
        if config.include_work:
            seen = torch.cat([later.new_zeros(work.shape[1], memory.shape[1]), later], dim=1)
            memory = torch.cat([memory, work], dim=1)
        for layer in range(config.decoder_layers):
            rows = self._decoder_layer(rows, memory, f"dec_modules.layers.{layer}", later, seen)
        rows = self._norm(rows, "dec_modules.norm") if config.decoder_norm else rows
        return self._linear(rows[:, -1], "classifier")

    def _encode(self, long: Tensor, bias: Tensor) -> Tensor:
        """The long memory (B, L, d), compressed by every module in turn."""
        config = self.config
        modules = zip(config.encoder_queries, config.encoder_layers, config.encoder_norms, strict=True)
        memory = long
        for index, (queries, layers, norm) in enumerate(modules):
            name = f"enc_modules.{index}"
            if queries:
                rows = self.weights[f"enc_queries.{index}.weight"].expand(long.shape[0], -1, -1)
                for layer in range(layers):
                    seen = bias if index == 0 else None
                    rows = self._decoder_layer(rows, memory, f"{name}.layers.{layer}", None, seen)
            else:
                rows = memory
                for layer in range(layers):
                    rows = self._encoder_layer(rows, f"{name}.layers.{layer}")
            memory = self._norm(rows, f"{name}.norm") if norm else rows
        return memory

    def _feature_head(self, frames: Tensor, memory: str) -> Tensor:
        frames = frames.to(self.weights["classifier.weight"].dtype)
        if not self.config.feature_head:
            return frames
        return F.relu(self._linear(frames, f"feature_head_{memory}.input_linear.0"))

    def _decoder_layer(
        self, rows: Tensor, memory: Tensor, name: str, own_bias: Tensor | None, cross_bias: Tensor | None
    ) -> Tensor:
        rows = self._norm(rows + self._attention(rows, rows, f"{name}.self_attn", own_bias), f"{name}.norm1")
        rows = self._norm(rows + self._attention(rows, memory, f"{name}.multihead_attn", cross_bias), f"{name}.norm2")
        return self._norm(rows + self._feed_forward(rows, name), f"{name}.norm3")

    def _encoder_layer(self, rows: Tensor, name: str) -> Tensor:
        rows = self._norm(rows + self._attention(rows, rows, f"{name}.self_attn", None), f"{name}.norm1")
        return self._norm(rows + self._feed_forward(rows, name), f"{name}.norm2")

    def _feed_forward(self, rows: Tensor, name: str) -> Tensor:
        hidden = self._linear(rows, f"{name}.linear1")
        hidden = F.relu(hidden) if self.config.activation == "relu" else F.gelu(hidden)
        return self._linear(hidden, f"{name}.linear2")

    def _attention(self, rows: Tensor, memory: Tensor, name: str, bias: Tensor | None) -> Tensor:
        weights = self.weights[f"{name}.in_proj_weight"].chunk(3)
        biases = self.weights[f"{name}.in_proj_bias"].chunk(3)
        query, key, value = (
            F.linear(source, weight, shift).view(*source.shape[:2], self.config.heads, -1).transpose(1, 2)
            for source, weight, shift in zip((rows, memory, memory), weights, biases, strict=True)
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        if bias is not None:
            scores = scores + bias
        mixed = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2)
        return self._linear(mixed, f"{name}.out_proj")

    def _linear(self, rows: Tensor, name: str) -> Tensor:
        return F.linear(rows, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, rows: Tensor, name: str) -> Tensor:
        return F.layer_norm(rows, rows.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])
