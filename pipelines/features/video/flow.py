"""Stacks of optical flow as two-stream networks see them: x and y of consecutive frames, clipped, as grey levels."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.errors import UsageError
from pipelines.features.video.choices import FLOW_METHODS, FlowMethod
from pipelines.features.video.preprocessing import centre_crop, resize_mmaction

PAIRS = 5  # flow fields in a stack
FRAMES = PAIRS + 1
CHANNELS = 2 * PAIRS  # x1, y1, x2, y2, ...
BOUND = 20.0  # pixels per frame at a shorter side of 256; faster motion is clipped
# Two-stream networks are trained on flow that was stored as pictures: −20 is grey level 0 and 20 is 255. Their
# input is (level − 128) / 128.
LEVELS = 255
ZERO_LEVEL = 128


class FlowStack:
    """Computes the network input for one row."""

    def __init__(self, method: FlowMethod) -> None:
        if method not in FLOW_METHODS:
            raise UsageError(f"unknown optical flow '{method}': choose from {', '.join(FLOW_METHODS)}")
        self._method = method

    def __call__(self, frames: NDArray[np.uint8]) -> Tensor:
        """(6, h, w, 3) RGB, oldest first -> (1, 10, 224, 224)."""
        import cv2

        grey = [cv2.cvtColor(resize_mmaction(frame), cv2.COLOR_RGB2GRAY) for frame in frames]
        fields = [to_levels(self.field(first, second)) for first, second in pairwise(grey)]
        levels = centre_crop(np.concatenate(fields, axis=2), rounded=False)
        values = torch.from_numpy(np.ascontiguousarray(levels)).permute(2, 0, 1).float()
        return ((values - ZERO_LEVEL) / ZERO_LEVEL)[None]

    def field(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float32]:
        """(h, w) grey pictures -> (h, w, 2): by how many pixels x and y of each point change."""
        import cv2

        if np.array_equal(first, second):  # a still, or a frame repeated at the start: no motion, no work
            return np.zeros((*first.shape, 2), np.float32)
        if self._method == "dis":
            # A new estimator each time: an old one would start from its last result.
            estimator = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
            return np.asarray(estimator.calc(first, second, np.zeros((*first.shape, 2), np.float32)), np.float32)
        flow = cv2.calcOpticalFlowFarneback(first, second, None, 0.5, 3, 15, 3, 5, 1.2, 0)  # type: ignore[call-overload]
        return np.asarray(flow, np.float32)


def to_levels(field: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Pixels of motion -> grey levels, clipped to ±20."""
    clipped = np.clip(field, -BOUND, BOUND)
    return np.asarray(np.rint((clipped + BOUND) * (LEVELS / (2 * BOUND))), np.uint8)
