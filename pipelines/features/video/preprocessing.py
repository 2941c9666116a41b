"""From an RGB picture of any size to what a network was trained on."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from pipelines.features.video.choices import Preprocessing

SHORT_SIDE = 256  # pixels after resizing
CROP = 224  # pixels
IMAGENET_MEAN = (0.485, 0.456, 0.406)  # RGB, of values in [0, 1]
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)
EFFICIENTNET_MEAN, EFFICIENTNET_SCALE = 127, 128  # of levels from 0 to 255


def torchvision_size(height: int, width: int, short: int = SHORT_SIDE) -> tuple[int, int]:
    """Height and width with the shorter side at `short`; the longer one is cut to whole pixels."""
    if height <= width:
        return short, max(short, int(short * width / height))
    return max(short, int(short * height / width)), short


def mmaction_size(height: int, width: int, short: int = SHORT_SIDE) -> tuple[int, int]:
    """The same, with the longer side rounded."""
    scale = short / min(height, width)
    return int(height * scale + 0.5), int(width * scale + 0.5)


def resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """(h, w, 3) -> (height, width, 3), bilinear with antialiasing (as Pillow)."""
    tensor = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None]
    resized = functional.interpolate(tensor, (height, width), mode="bilinear", antialias=True, align_corners=False)
    return np.asarray(resized[0].permute(1, 2, 0).numpy(), np.uint8)


def resize_mmaction(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(h, w, 3) -> shorter side 256, bilinear without antialiasing (as OpenCV)."""
    import cv2

    height, width = mmaction_size(image.shape[0], image.shape[1])
    resized = cv2.resize(np.ascontiguousarray(image), (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(resized, np.uint8)


def centre_crop(image: NDArray[np.uint8], rounded: bool, size: int = CROP) -> NDArray[np.uint8]:
    """(h, w, channels) -> (size, size, channels). torchvision rounds a half pixel, MMAction2 drops it."""
    spare = [length - size for length in image.shape[:2]]
    top, left = (round(value / 2) if rounded else value // 2 for value in spare)
    return image[top : top + size, left : left + size]


def resize_and_crop(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """(h, w, 3) -> (*size, 3): scaled so that it just covers `size`, then the middle."""
    scale = max(size[0] / image.shape[0], size[1] / image.shape[1])
    height, width = (max(size[axis], round(image.shape[axis] * scale)) for axis in (0, 1))
    resized = resize(image, height, width)
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    return resized[top : top + size[0], left : left + size[1]]


def preprocess(image: NDArray[np.uint8], preprocessing: Preprocessing) -> Tensor:
    """(h, w, 3) RGB -> (1, 3, 224, 224), normalised with ImageNet's mean and deviation; EfficientNet's has its own."""
    if preprocessing in ("torchvision", "efficientnet"):  # both crop 7/8 of the shorter side
        pixels = centre_crop(resize(image, *torchvision_size(*image.shape[:2])), rounded=True)
    else:
        pixels = centre_crop(resize_mmaction(image), rounded=False)
    values = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1).float()
    if preprocessing == "efficientnet":
        return ((values - EFFICIENTNET_MEAN) / EFFICIENTNET_SCALE).contiguous()[None]
    values = values.div(255)
    mean = torch.tensor(IMAGENET_MEAN)[:, None, None]
    deviation = torch.tensor(IMAGENET_DEVIATION)[:, None, None]
    return ((values - mean) / deviation)[None]
