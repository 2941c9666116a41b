"""A silent video whose texture moves, for the benchmarks."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_video(path: Path, seconds: float) -> Path:
    """Silent: texture that moves."""
    import av

    texture = np.random.default_rng(0).integers(0, 255, (20, 20, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = 160, 160, "yuv420p"
        for index in range(round(30 * seconds)):
            image = np.ascontiguousarray(np.roll(texture, (index, 3 * index), (0, 1)))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode(None))
    return path
