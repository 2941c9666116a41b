"""Small pictures as text, for pages."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from pipelines.pages.packing import base64_text


def jpeg_text(image: NDArray[np.uint8], largest: tuple[int, int], quality: int) -> str:
    """Base64 of a JPEG. image: (height, width, 3) RGB; largest: width and height that it is made to fit into."""
    from PIL import Image

    picture = Image.fromarray(image)
    picture.thumbnail(largest)
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=quality, optimize=True)
    return base64_text(content.getvalue())
