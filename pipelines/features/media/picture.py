"""From a decoded ffmpeg picture to an upright RGB array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError

# The display matrix of a picture maps stored to shown coordinates: x' = a·x + c·y, y' = b·x + d·y (y down).
Matrix = tuple[int, int, int, int]  # a, b, c, d in 16.16 fixed point
UPRIGHT: Matrix = (1 << 16, 0, 0, 1 << 16)
# Pictures that may carry a colour profile. Its side data has a dictionary that PyAV (18.1) frees twice: looking at
# it ends the process. For these the rotation alone is used.
IMAGE_CODECS = frozenset(
    {"png", "apng", "mjpeg", "jpeg2000", "jpegls", "jpegxl", "libjxl", "webp", "tiff", "bmp", "gif"}
)


def display_matrix(frame: Any, codec: str) -> Matrix:
    """The orientation that the source asks for (phones store pictures sideways, some cameras mirrored)."""
    if frame.rotation == 0:
        return UPRIGHT
    if codec not in IMAGE_CODECS:
        # Not `frame.side_data`, which ties the frame into a reference cycle: a container of our own is none.
        from av.sidedata.sidedata import SideDataContainer

        for data in SideDataContainer(frame):  # type: ignore[call-arg]
            if data.type.name == "DISPLAYMATRIX":
                a, b, _, c, d = np.frombuffer(bytes(data), np.int32, count=5).tolist()
                return a, b, c, d
    angle = math.radians(frame.rotation)  # counter-clockwise
    cosine, sine = round(math.cos(angle) * (1 << 16)), round(math.sin(angle) * (1 << 16))
    return cosine, -sine, sine, cosine


def rotation(matrix: Matrix) -> int:
    """Degrees clockwise, a multiple of 90 in 0..270."""
    a, b, _, _ = matrix
    return round(math.degrees(math.atan2(b, a)) / 90) % 4 * 90


def orient(image: NDArray[np.uint8], matrix: Matrix) -> NDArray[np.uint8]:
    """Turn and mirror (h, w, 3) as the display matrix says, to the nearest multiple of 90 degrees."""
    a, b, c, d = matrix
    if abs(a) >= abs(b):
        flip_x, flip_y = a < 0, d < 0
    else:
        image = image.transpose(1, 0, 2)
        flip_x, flip_y = c < 0, b < 0
    if flip_y:
        image = image[::-1]
    if flip_x:
        image = image[:, ::-1]
    return np.ascontiguousarray(image)


def to_rgb(frame: Any, matrix: Matrix) -> NDArray[np.uint8]:
    """(height, width, 3), upright."""
    import av

    try:
        image: NDArray[np.uint8] = frame.to_ndarray(format="rgb24")
    except (av.error.FFmpegError, ValueError) as error:
        raise InputError(f"a picture of format {frame.format.name} cannot be shown as RGB: {error}") from error
    return orient(image, matrix)
