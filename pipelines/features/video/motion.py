"""Motion: what moves where between the pictures of two rows, seen by a small network that was trained on golf swings.

A picture becomes five maps of 20 × 20 cells: optical flow to the right and downwards, change of grey, size of that
change, and the grey itself with the picture's own mean and contrast taken out. A still background vanishes from the
first four; the last says where the body is. Two convolutions and a linear layer make a token of them, and three causal
convolutions in time, which reach 28 rows back, make a row of the tokens. A row has seen nothing after its own picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pipelines.errors import InputError
from pipelines.features.extractor import Rows
from pipelines.features.spec import ExtractorSpec, Option
from pipelines.features.video.key_tables import KeyTable
from pipelines.features.video.parameters import fill_randomly, load_weights
from pipelines.features.weights.registry import SHIPPED
from pipelines.files import file_sha256

NAME = "motion"
FILE = "motion_golf.safetensors"
SIDE = 160  # pixels of the square that motion is measured in
COARSE = 80  # pixels to which the grey is reduced before it is averaged
CELLS = 20  # of a map's side
MAPS = 5
CHANNELS = (24, 48)
TOKEN = 96  # numbers that one picture becomes
WIDTH = 64  # numbers of a row
EPSILON = 1e-5  # of the batch norms
DILATIONS = (1, 2, 4)  # of the convolutions in time
TAPS = 5  # rows that each of them sees, so far apart
REACH = (TAPS - 1) * sum(DILATIONS)  # 28 rows back
FLOW_UNIT, CHANGE_UNIT, LIMIT = 2.0, 12.0, 4.0  # pixels and grey levels that count as 1; what is more is cut off
LEAST_CONTRAST = 8.0  # grey levels: a picture that is nearly flat is not blown up to noise
TABLE = KeyTable("cotrans", ((r"(convolutions|norms|linear|norm|inward|temporal)\.", r"\1."),), "motion")

Grey = NDArray[np.uint8]  # (SIDE, SIDE)


class MotionNetwork(nn.Module):
    """Maps in, rows out, for whole recordings; `MotionSteps` takes one picture at a time."""

    width = WIDTH

    def __init__(self, dilations: Sequence[int] = DILATIONS) -> None:
        """dilations: others than those of the extractor are for trials of how far back to look."""
        super().__init__()
        self.dilations = tuple(dilations)
        pairs = list(zip((MAPS, *CHANNELS), CHANNELS, strict=False))
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False) for a, b in pairs)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for channels in CHANNELS)
        self.dropout = nn.Dropout(0.3)
        cells = CELLS >> len(CHANNELS)
        self.linear = nn.Linear(CHANNELS[-1] * cells * cells, TOKEN)
        self.norm = nn.BatchNorm1d(TOKEN)
        self.inward = nn.Conv1d(TOKEN, WIDTH, 1)
        self.temporal = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, TAPS, dilation=dilation) for dilation in self.dilations)

    def tokens(self, maps: Tensor) -> Tensor:
        """(b, 5, 20, 20) -> (b, 96)."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            maps = norm(convolution(maps)).relu()
        return torch.relu(self.norm(self.linear(self.dropout(maps.flatten(1)))))

    def through_time(self, tokens: Tensor) -> Tensor:
        """Whole recordings at once: (b, T, 96) -> (b, T, 64); before their start there is nothing."""
        x = self.inward(tokens.transpose(1, 2))
        for layer, dilation in zip(self.temporal, self.dilations, strict=True):
            x = x + layer(functional.pad(x, ((TAPS - 1) * dilation, 0))).relu()
        return torch.relu(x).transpose(1, 2)

    def forward(self, maps: Tensor) -> Tensor:
        """A whole recording at once: (T, 5, 20, 20) -> (T, 64)."""
        return self.through_time(self.tokens(maps)[None])[0]


class MotionSteps:
    """The network through time, one picture after the other, as plain matrix products with folded norms.

    They are so small that threads only wait for each other: with two of PyTorch on a busy machine a step took 30 times
    as long as with one.
    """

    def __init__(self, network: MotionNetwork) -> None:
        state = {name: value.double().cpu().numpy() for name, value in network.state_dict().items()}

        def folded(norm: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            scale = state[f"{norm}.weight"] / np.sqrt(state[f"{norm}.running_var"] + EPSILON)
            return scale, state[f"{norm}.bias"] - scale * state[f"{norm}.running_mean"]

        self._convolutions = []  # (channels · 9, out) and (out,) of each
        for place in range(len(CHANNELS)):
            scale, shift = folded(f"norms.{place}")
            weight = state[f"convolutions.{place}.weight"].reshape(len(scale), -1).T * scale
            self._convolutions.append((_single(weight), _single(shift)))
        scale, shift = folded("norm")
        self._linear = _single(state["linear.weight"].T * scale), _single(state["linear.bias"] * scale + shift)
        self._inward = _single(state["inward.weight"][:, :, 0].T), _single(state["inward.bias"])
        self._temporal = [  # (TAPS · WIDTH, WIDTH) and (WIDTH,) of each
            (
                _single(state[f"temporal.{place}.weight"].transpose(2, 1, 0).reshape(-1, WIDTH)),
                _single(state[f"temporal.{place}.bias"]),
            )
            for place in range(len(DILATIONS))
        ]
        # The newest inputs of each convolution in time; before the first row there is nothing.
        self._past = [np.zeros(((TAPS - 1) * dilation, WIDTH), np.float32) for dilation in DILATIONS]

    def step(self, maps: NDArray[np.float32]) -> NDArray[np.float32]:
        """(5, 20, 20) -> (64,)."""
        for weight, shift in self._convolutions:
            padded = np.pad(maps, ((0, 0), (1, 1), (1, 1)))
            windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))[:, ::2, ::2]
            side = windows.shape[1]
            patches = windows.transpose(1, 2, 0, 3, 4).reshape(side * side, -1)
            maps = np.maximum(patches @ weight + shift, 0).T.reshape(-1, side, side)
        token = np.maximum(maps.reshape(-1) @ self._linear[0] + self._linear[1], 0)
        row = token @ self._inward[0] + self._inward[1]
        for place, (dilation, (weight, shift)) in enumerate(zip(DILATIONS, self._temporal, strict=True)):
            seen = np.concatenate([self._past[place], row[None]])
            self._past[place] = seen[1:]
            row = row + np.maximum(seen[::dilation].reshape(-1) @ weight + shift, 0)
        return np.asarray(np.maximum(row, 0), np.float32)


def _single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, np.float32)


class MotionExtractor:
    """A row for every picture, from it and those of the rows before; the first row has seen no motion."""

    frames_per_row = 1
    reach = REACH + 1  # the convolutions' rows, of which the first is compared with the picture before it
    remembers = True  # a picture that stays is a row without motion, not the row before again

    def __init__(self, spec: ExtractorSpec, network: MotionNetwork) -> None:
        self.spec = spec
        self.network = network
        self._steps = MotionSteps(network)
        self._before: Grey | None = None

    def fresh(self, row: int = 0) -> MotionExtractor:
        """The same extractor at the start of another stream, or of the rows from `row` on: it sees nothing before."""
        return MotionExtractor(self.spec, self.network)

    def push(self, frames: NDArray[np.uint8]) -> Rows:
        """(rows, height, width, 3) RGB -> (rows, 64)."""
        if frames.ndim != 4 or frames.shape[3] != 3 or frames.dtype != np.uint8 or 0 in frames.shape[1:3]:
            raise InputError(f"frames must be (count, height, width, 3) uint8, not {frames.shape} {frames.dtype}")
        rows = np.empty((len(frames), WIDTH), np.float32)
        for index, frame in enumerate(frames):
            now = grey_square(frame)
            rows[index] = self._steps.step(motion_maps(now if self._before is None else self._before, now))
            self._before = now
        return rows


def grey_square(image: NDArray[np.uint8]) -> Grey:
    """(h, w, 3) RGB -> the middle square as (160, 160) grey."""
    import cv2

    height, width, _ = image.shape
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    grey = cv2.cvtColor(np.ascontiguousarray(image[top : top + side, left : left + side]), cv2.COLOR_RGB2GRAY)
    if side != SIDE:
        grey = cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA if side > SIDE else cv2.INTER_LINEAR)
    return np.asarray(grey, np.uint8)


def motion_maps(before: Grey, now: Grey) -> NDArray[np.float32]:
    """Two (160, 160) grey pictures -> (5, 20, 20)."""
    import cv2

    if np.array_equal(before, now):
        flow = np.zeros((SIDE, SIDE, 2), np.float32)
    else:
        # A new estimator each time: nothing of the pictures before stays in it.
        estimator = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_FAST)
        flow = np.asarray(estimator.calc(before, now, np.zeros((SIDE, SIDE, 2), np.float32)), np.float32)
    change = now.astype(np.float32) - before
    units = (FLOW_UNIT, FLOW_UNIT, CHANGE_UNIT, CHANGE_UNIT)
    measured = (flow[..., 0], flow[..., 1], change, np.abs(change))
    moving = [np.clip(averaged(plane) / unit, -LIMIT, LIMIT) for plane, unit in zip(measured, units, strict=True)]
    grey = averaged(cv2.resize(now, (COARSE, COARSE), interpolation=cv2.INTER_AREA))
    return np.stack([*moving, (grey - grey.mean()) / (grey.std() + LEAST_CONTRAST)]).astype(np.float32)


def averaged(plane: NDArray[np.generic]) -> NDArray[np.float32]:
    """(side, side) -> (20, 20): the mean of each cell."""
    cell = len(plane) // CELLS
    means = plane.astype(np.float32).reshape(CELLS, cell, CELLS, cell).mean(axis=(1, 3))
    return np.asarray(means, np.float32)


def build_motion_extractor(
    weights_path: Path | None, random_weights: bool, options: dict[str, Option]
) -> MotionExtractor:
    """With the weights that ship with cotrans, with others, or with random ones."""
    with torch.device("meta"):
        network = MotionNetwork()
    path = weights_path or SHIPPED / FILE
    if random_weights:
        fill_randomly(network)
    else:
        load_weights(network, "", path, (TABLE,))
    network.eval().requires_grad_(False)
    weights = "random" if random_weights else file_sha256(path)
    spec = ExtractorSpec(NAME, "video", WIDTH, 0.0, options, weights)
    return MotionExtractor(spec, network)
