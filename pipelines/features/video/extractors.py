"""Video extractors: pictures in, one row per picture or per stack of pictures out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import InputError
from pipelines.features.extractor import Rows
from pipelines.features.spec import ExtractorSpec


class NetworkExtractor:
    """Prepares the pictures of a row and takes a network's pooled features, which `compute` gives.

    Rows go through the network one by one: the numbers of a row do not depend on its neighbours in a batch.
    """

    def __init__(
        self,
        spec: ExtractorSpec,
        network: nn.Module,
        compute: Callable[[Tensor], Tensor],
        prepare: Callable[[NDArray[np.uint8]], Tensor],
        frames_per_row: int,
        device: str,
    ) -> None:
        self.spec = spec
        self.network = network
        self.frames_per_row = frames_per_row
        self._compute = compute
        self._prepare = prepare
        self._device = device

    @torch.inference_mode()
    def push(self, frames: NDArray[np.uint8]) -> Rows:
        """(rows · frames_per_row, height, width, 3) RGB -> (rows, width)."""
        if frames.ndim != 4 or frames.shape[3] != 3 or frames.dtype != np.uint8:
            raise InputError(f"frames must be (count, height, width, 3) uint8, not {frames.shape} {frames.dtype}")
        if not frames.shape[1] or not frames.shape[2] or len(frames) % self.frames_per_row:
            raise InputError(f"{self.spec.name} takes {self.frames_per_row} frames per row, not {frames.shape}")
        rows = np.empty((len(frames) // self.frames_per_row, self.spec.width), np.float32)
        for index in range(len(rows)):
            start = index * self.frames_per_row
            images = self._prepare(frames[start : start + self.frames_per_row]).to(self._device)
            rows[index] = self._compute(images)[0].float().cpu().numpy()
        return rows
