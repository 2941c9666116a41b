"""Checkpoints as torchvision and MMAction2 publish them: their key names and shapes, filled with seeded numbers.

The names and shapes in golden/published_video_keys.json were written by torchvision 0.28 and MMAction2 1.2
themselves, and so were the features in golden/video_networks.npz, for the weights and the picture made here.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

GOLDEN = Path(__file__).parents[1] / "golden"


def published_shapes(which: str) -> dict[str, list[int]]:
    """Key -> shape, e.g. of "torchvision/resnet50"."""
    shapes: dict[str, dict[str, list[int]]] = json.loads((GOLDEN / "published_video_keys.json").read_text())
    return shapes[which]


def seeded_state(shapes: dict[str, list[int]]) -> dict[str, NDArray[np.generic]]:
    """Numbers that depend on the key alone and keep activations at a reasonable size."""
    state: dict[str, NDArray[np.generic]] = {}
    for key, shape in shapes.items():
        random = np.random.default_rng(zlib.crc32(key.encode()))
        if key.endswith("num_batches_tracked"):
            state[key] = np.array(1, np.int64)
        elif len(shape) > 1:
            deviation = (2.0 / np.prod(shape[1:])) ** 0.5
            state[key] = random.normal(size=shape).astype(np.float32) * np.float32(deviation)
        elif key.endswith("running_var"):
            state[key] = random.uniform(1.0, 2.0, shape).astype(np.float32)
        elif key.endswith("weight"):
            state[key] = random.uniform(0.5, 0.8, shape).astype(np.float32)
        else:
            state[key] = random.normal(size=shape).astype(np.float32) * np.float32(0.1)
    return state


def picture(height: int = 270, width: int = 483) -> NDArray[np.uint8]:
    """(height, width, 3): smooth and fine structure."""
    y, x = np.mgrid[:height, :width]
    channels = [127 + 80 * np.sin(x / 17 + phase) + 40 * np.cos(y / 3 + x / 29 * phase) for phase in range(3)]
    return np.clip(np.stack(channels, axis=2), 0, 255).astype(np.uint8)
