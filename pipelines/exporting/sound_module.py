"""`logmel` as a part of the graph: the samples of one hop in, the row of features out, with the sound before as state.

Only the frames that end within the hop are new; the others of the row's window are state. Frames are kept relative to
those of silence, so that this state too begins as zeros: before a stream there is silence.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.errors import ConfigurationError
from pipelines.exporting.description import NEW, POSITION, SAMPLES
from pipelines.exporting.step_module import Signature, StepModule
from pipelines.features.audio.logmel import FRAME_HOP_SECONDS, LEVEL_DECAY, LOWEST_LEVEL, frame_count, frame_sizes
from pipelines.features.audio.mel import MelFrontEnd, general_front_end, periodic_hann
from pipelines.features.spec import FeatureSpec

TAIL, FRAMES, LEVEL = "tail", "frames", "level"


class LogmelModule(nn.Module):
    """Rows of `logmel`, one hop at a time: the numbers of the extractor, in float32."""

    waves: Tensor  # (length, 2 · bins)
    filters: Tensor  # (bins, bands)
    slope: Tensor  # (count,) what frames count for the change per second

    def __init__(self, spec: FeatureSpec) -> None:
        super().__init__()
        (part,) = spec.parts
        options = part.options
        rate, window = int(options["sample_rate"]), float(options["window"])
        length, step = frame_sizes(rate)
        self.sample_rate, self.hop = rate, round(spec.hop * rate)
        if spec.align != "causal" or abs(self.hop - spec.hop * rate) > 1e-6 or self.hop % step:
            raise ConfigurationError(
                f"--with-features: a graph takes causal rows whose hop is a multiple of {FRAME_HOP_SECONDS:g} s, and "
                f"these are {spec.align} rows of {spec.hop:g} s: export without the features"
            )
        bands = int(options["n_mels"])
        front = general_front_end(rate, bands, float(options["lowest"]), float(options["highest"]), length, step)
        self.count = frame_count(window, rate)
        self.new = min(self.hop // step, self.count)
        self.pieces = int(options.get("frames", 0))
        self.statistics = str(options.get("statistics", "")).split("+")
        self.relative = options["level"] == "relative"
        self._length, self._step = length, step
        # A window begins on the grid of frames, at or before the place that its length says.
        self._begin = -(-round(window * rate) // step) * step  # samples before the end of the hop
        self.tail = max(0, self._begin - (self.count - self.new) * step - self.hop)
        self._silence = math.log(front.offset)
        self.register_buffer("waves", _waves(front))
        self.register_buffer("filters", torch.from_numpy(front.filters.astype(np.float32)))
        self._offset = front.offset
        times = FRAME_HOP_SECONDS * (np.arange(self.count) - (self.count - 1) / 2)
        slope = times / max(float(times @ times), 1e-12)  # least squares, per second
        self.register_buffer("slope", torch.from_numpy(slope.astype(np.float32)))

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what is kept from one hop to the next, without the batch."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.tail:
            shapes[TAIL] = (self.tail,)
        if self.count > self.new:
            shapes[FRAMES] = (self.count - self.new, self.filters.shape[1])
        if self.relative:
            shapes[LEVEL] = ()
        return shapes

    def forward(self, samples: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """samples (B, hop) -> the row (B, width), and the state after it."""
        after: dict[str, Tensor] = {}
        sound = torch.cat([state[TAIL], samples], dim=1) if self.tail else samples
        if self.tail:
            after[TAIL] = sound[:, -self.tail :]
        # From the end of the sound back to the first sample of the first new frame.
        first = sound.shape[1] - (self._begin - (self.count - self.new) * self._step)
        views = sound[:, first:].unfold(1, self._length, self._step)[:, : self.new]  # (B, new, length)
        spectrum = torch.matmul(views, self.waves)  # (B, new, 2 · bins)
        bins = self.filters.shape[0]
        power = spectrum[..., :bins] ** 2 + spectrum[..., bins:] ** 2
        frames = torch.log(torch.matmul(power, self.filters) + self._offset)
        kept = frames - self._silence
        if FRAMES in state:
            kept = torch.cat([state[FRAMES], kept], dim=1)
            after[FRAMES] = kept[:, self.new :]
        windows = kept + self._silence  # (B, count, bands)
        if self.relative:
            level = self._level(frames, state[LEVEL])
            after[LEVEL] = level - LOWEST_LEVEL
            windows = windows - level.view(-1, 1, 1)
        return self._row(windows), after

    def _level(self, frames: Tensor, before: Tensor) -> Tensor:
        """The loudest band so far (B,), which fades with every frame. before: above the lowest level."""
        decay = LEVEL_DECAY * FRAME_HOP_SECONDS
        ages = torch.arange(self.new - 1, -1, -1, dtype=frames.dtype)
        loudest = (frames.amax(2) - decay * ages).amax(1)
        faded = before + LOWEST_LEVEL - decay * self.new
        return torch.clamp(torch.maximum(loudest, faded), min=LOWEST_LEVEL)

    def _row(self, windows: Tensor) -> Tensor:
        """(B, count, bands) to (B, width)."""
        if self.pieces:
            return torch.cat([part.mean(1) for part in torch.tensor_split(windows, self.pieces, dim=1)], dim=1)
        return torch.cat([self._statistic(name, windows) for name in self.statistics], dim=1)

    def _statistic(self, name: str, windows: Tensor) -> Tensor:
        if name == "mean":
            return windows.mean(1)
        if name == "std":
            return torch.sqrt(((windows - windows.mean(1, keepdim=True)) ** 2).mean(1))
        if name == "max":
            return windows.amax(1)
        if name == "min":
            return windows.amin(1)
        return (self.slope.view(1, -1, 1) * windows).sum(1)


def _waves(front: MelFrontEnd) -> Tensor:
    """Window and Fourier transform of a frame as one matrix (length, 2 · bins): cosines, then sines."""
    time = np.arange(front.frame_length)[:, None]
    angle = 2 * np.pi * time * np.arange(front.fft_length // 2 + 1) / front.fft_length
    window = periodic_hann(front.frame_length)[:, None]
    return torch.from_numpy(np.concatenate([window * np.cos(angle), window * np.sin(angle)], 1).astype(np.float32))


class SoundStepModule(StepModule):
    """A step that takes the samples of one hop in place of a row."""

    def __init__(self, step: StepModule, features: FeatureSpec) -> None:
        super().__init__(step.model)
        self.features = LogmelModule(features)

    @property
    def signature(self) -> Signature:
        inputs, outputs = super().signature
        names = tuple(self.features.states)
        place, new_place = inputs.index(POSITION) + 1, outputs.index(NEW + POSITION) + 1
        return Signature(
            (SAMPLES, POSITION, *names, *inputs[place:]),
            (*outputs[:new_place], *(NEW + name for name in names), *outputs[new_place:]),
        )

    def zeros(self, batch_size: int) -> tuple[Tensor, ...]:
        _, position, *carried = super().zeros(batch_size)
        sound = [torch.zeros(batch_size, *shape) for shape in self.features.states.values()]
        return (torch.zeros(batch_size, self.features.hop), position, *sound, *carried)

    def forward(self, token: Tensor, position: Tensor, *carried: Tensor) -> tuple[Tensor, ...]:
        """token: samples (B, hop); the state of the features stands before that of the model."""
        names = tuple(self.features.states)
        row, after = self.features(token, dict(zip(names, carried, strict=False)))
        results = super().forward(row, position, *carried[len(names) :])
        place = super().signature.outputs.index(NEW + POSITION) + 1
        return (*results[:place], *(after[name] for name in names), *results[place:])
