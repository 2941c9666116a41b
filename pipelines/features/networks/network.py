"""What any network in a file must say about itself to become an extractor, and the options that its input leaves open.

The shape of the input says what it takes: (1, 3, height, width) and (1, height, width, 3) take a picture,
(samples,), (1, samples) and (1, 1, samples) a window of mono audio.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import CheckpointError, UsageError
from pipelines.features.row_clock import FrameChoice
from pipelines.features.spec import Kind, Option

USUAL_SIDE = 224  # pixels, where the network takes pictures of any size
USUAL_RATE = 16_000  # Hz, where the file does not say one
AUDIO_OPTIONS: Mapping[str, Option] = {"rate": USUAL_RATE, "window": 1.0, "output": ""}  # Hz; seconds; "": the first
VIDEO_OPTIONS: Mapping[str, Option] = {"scale": "imagenet", "frame": "centre", "output": ""}
CHOICES = {"scale": ("imagenet", "unit", "signed", "raw"), "frame": get_args(FrameChoice)}


@dataclass(frozen=True)
class NetworkInput:
    """The one input of a network; a dimension is None where any length will do."""

    name: str
    kind: Kind
    shape: tuple[int | None, ...]
    dtype: type[np.floating[Any]]
    rate: int | None = None  # Hz, of audio; None: the file does not say

    @property
    def channels_last(self) -> bool:
        return self.kind == "video" and self.shape[1] != 3

    @property
    def picture_size(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.shape[1:3] if self.channels_last else self.shape[2:4]
        return height or USUAL_SIDE, width or USUAL_SIDE


class Network(Protocol):
    """A network from one array to one vector."""

    path: Path
    input: NetworkInput
    output: str  # the name of the tensor that the vector is

    def __call__(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """An array of the input's shape -> (width,)."""


def described_input(
    path: Path,
    name: str,
    shape: Sequence[int | None],
    dtype: type[np.floating[Any]] | None,
    shown: str,
    rate: int | None = None,
) -> NetworkInput:
    """The input of a network as its shape says it; what is neither sound nor a picture is refused.

    shape: None where any length will do. dtype: None where it is no floating-point type. shown: its type in a
    message. rate: Hz, where the file says one.
    """
    picture = len(shape) == 4 and 3 in (shape[1], shape[3])
    window = len(shape) in (1, 2, 3) and all(size in (1, None) for size in shape[:-1])
    if dtype is None or not (picture or window) or (picture and shape[0] not in (1, None)):
        sizes = [size if size is not None else "any" for size in shape]
        raise CheckpointError(
            f"{path}: its input {name} {sizes} {shown} is neither a picture (1, 3, h, w) nor an audio window "
            "(1, samples) of floating-point numbers"
        )
    return NetworkInput(name, "video" if picture else "audio", tuple(shape), dtype, rate)


def only_input(path: Path, inputs: Sequence[tuple[str, Any]]) -> Any:
    """The one input of a network, out of (name, input)."""
    if len(inputs) != 1:
        names = ", ".join(name for name, _ in inputs)
        raise CheckpointError(f"{path}: a feature network has one input, this one has {len(inputs)} ({names})")
    return inputs[0][1]


def default_options(wanted: NetworkInput) -> dict[str, Option]:
    """The options of a network and their defaults, which depend on what it takes."""
    if wanted.kind == "video":
        return dict(VIDEO_OPTIONS)
    return {**AUDIO_OPTIONS, "rate": wanted.rate or USUAL_RATE}


def checked_options(name: str, wanted: NetworkInput, options: Mapping[str, Option]) -> dict[str, Option]:
    """The defaults with `options` in their place; unknown keys and impossible values are errors."""
    known = default_options(wanted)
    chosen = dict(known)
    for key, value in options.items():
        if key not in known:
            raise UsageError(f"{name} has no option '{key}': choose from {', '.join(known)}")
        if key in CHOICES and value not in CHOICES[key]:
            raise UsageError(f"option {key} of {name}: '{value}' is not one of {', '.join(CHOICES[key])}")
        if key in ("rate", "window"):
            try:
                value = type(known[key])(value)
            except (ValueError, OverflowError) as error:
                raise UsageError(f"option {key} of {name} must be a number, not '{value}'") from error
            if not 0 < float(value) < math.inf:
                raise UsageError(f"option {key} of {name} must be positive, not {value}")
        chosen[key] = value
    return chosen


def picture_input(image: NDArray[np.uint8], wanted: NetworkInput, scale: str) -> NDArray[np.float32]:
    """(h, w, 3) RGB -> the network's input: resized to cover its size, centre-cropped, scaled."""
    from pipelines.features.video.preprocessing import IMAGENET_DEVIATION, IMAGENET_MEAN, resize_and_crop

    scaled = resize_and_crop(image, wanted.picture_size).astype(np.float64)
    if scale == "imagenet":
        scaled = (scaled / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_DEVIATION)
    elif scale == "unit":
        scaled = scaled / 255
    elif scale == "signed":
        scaled = scaled / 127.5 - 1
    pixels = scaled.astype(np.float32)
    return pixels[None] if wanted.channels_last else np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]


def window_input(window: NDArray[np.float32], wanted: NetworkInput) -> NDArray[np.float32]:
    """(samples,) -> the network's input."""
    return window.reshape((1,) * (len(wanted.shape) - 1) + (-1,))
