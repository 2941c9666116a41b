"""Small recordings that the tests make for themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray


def sound(seconds: float, rate: int = 16000, seed: int = 0) -> NDArray[np.float32]:
    """A tone that glides through noise: no two stretches alike."""
    times = np.arange(round(seconds * rate)) / rate
    glide = np.sin(2 * np.pi * (200 + 40 * times + 30 * seed) * times)
    noise = np.random.default_rng(seed).standard_normal(len(times))
    return (0.3 * glide + 0.05 * noise).astype(np.float32)


def write_sound(path: Path, seconds: float = 2.0, rate: int = 16000, seed: int = 0) -> Path:
    """A mono file in the format that the suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sound(seconds, rate, seed), rate)
    return path


def write_video(path: Path, seconds: float = 2.0, fps: int = 12, audio: bool = True, seed: int = 0) -> Path:
    """A small moving pattern, with sound where wanted."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    background = generator.integers(0, 255, (48, 64, 3), np.uint8)
    with av.open(str(path), "w") as container:
        pictures = container.add_stream("mpeg4", rate=fps)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
        track = container.add_stream("aac", rate=16000) if audio else None
        container.start_encoding()
        for index in range(round(seconds * fps)):
            image = np.roll(background, (index, 2 * index), (0, 1))
            container.mux(pictures.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(pictures.encode(None))
        if track is not None:
            samples = sound(seconds, seed=seed)
            for begin in range(0, len(samples), 1024):
                block = av.AudioFrame.from_ndarray(samples[None, begin : begin + 1024], "fltp", "mono")
                block.sample_rate, block.pts = 16000, begin
                container.mux(track.encode(block))
            container.mux(track.encode(None))
    return path
