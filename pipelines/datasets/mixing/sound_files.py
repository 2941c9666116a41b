"""Sound of whole files: all samples at once, and encoded as wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]  # (n,) mono


def read_sound(path: Path, rate: int) -> Samples:
    """All of a file's sound at `rate`, mono."""
    from pipelines.features.media import AudioBlock, decode

    with decode(path, audio_rate=rate) as reader:
        return np.concatenate([block.samples for block in reader if isinstance(block, AudioBlock)])


def write_sound(path: Path, samples: Samples, rate: int, encoder: str, bit_rate: int | None = None) -> None:
    """Encode samples in [-1, 1]. encoder: of ffmpeg, which goes with the suffix of the path; bit_rate: a second."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream(encoder, rate=rate, layout="mono")
        assert isinstance(stream, av.AudioStream)
        if bit_rate is not None:
            stream.bit_rate = bit_rate
        integers = np.rint(samples * 32767).astype(np.int16)[None]
        frame = av.AudioFrame.from_ndarray(integers, format="s16", layout="mono")
        frame.sample_rate = rate
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
