"""`speech`: what a network that was trained on spoken words makes of the last 0.8 s, whose weights ship with cotrans.

Rows see 76 frames of 10 ms, 0.782 s at 16 kHz, of the telephone band (60 to 3800 Hz). A row is what the two original
ONNX files give for the samples of its window, so it depends on nothing before them. In the files, frames end 80 dB
below the loudest of what they are given. Recordings are seldom that far from silence; where they are (digital silence,
and the start of a stream), the floor belongs to the window, and only windows with the same floor share their work.
"""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np
import torch

from pipelines.features.audio.mel import Frames, speech_front_end
from pipelines.features.audio.parameters import load_strictly, randomise, read_state
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.audio.speech.early_layers import rows_of_windows
from pipelines.features.audio.speech.floors import clipped, forget_others, runs_of_one_floor
from pipelines.features.audio.speech.grid_rows import GridRows, on_one_grid
from pipelines.features.audio.speech.network import FRAMES, WIDTH, SpeechEmbedding
from pipelines.features.audio.speech.overlap import SharedWindows, windows_share
from pipelines.features.audio.speech.steps import open_steps
from pipelines.features.audio.windowed import RowsOf, StreamMemory, WindowedExtractor
from pipelines.features.extractor import Rows
from pipelines.features.spec import RANDOM, Align, ExtractorSpec
from pipelines.files import file_sha256

FILE = "speech_embedding.safetensors"  # in `weights/`
BLOCK_ROWS = 64  # rows that share their work: the layers of more leave the cache
# The last bit of a row depends on which rows were computed with it: those of one push, and what the push before left
# over. Sound comes in blocks of 4 s, so this is longer than what two of them share.
SHARED_SECONDS = 10.0


def shipped_weights() -> Path:
    """The file that comes with cotrans."""
    import weights

    return Path(weights.__file__).parent / FILE


def load_speech(path: Path) -> SpeechEmbedding:
    """The network in a file that `wheel_import` wrote."""
    network = SpeechEmbedding()
    load_strictly(network, read_state(path, "speech"), str(path))
    return network.eval()


def build_speech(
    hop: float, weights_path: Path | None = None, random_weights: bool = False, align: Align = "causal"
) -> WindowedExtractor:
    """Rows of 96 numbers; a hop of 0.08 s is the network's own grid, on which windows share the most."""
    path = weights_path or shipped_weights()
    if random_weights:
        network = SpeechEmbedding().eval()
        randomise(network)
    else:
        network = load_speech(path)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    front_end = speech_front_end()
    spec = ExtractorSpec(
        name="speech",
        kind="audio",
        width=WIDTH,
        window=front_end.span(FRAMES) / front_end.sample_rate,
        weights=RANDOM if random_weights else file_sha256(path),
    )
    clock = SampleClock(hop, front_end.sample_rate, front_end.span(FRAMES), align)
    hop_frames = hop * front_end.sample_rate / front_end.frame_hop
    rows_of: RowsOf
    if on_one_grid(hop_frames):
        rows_of = GridRows(open_steps(network))
    else:
        rows_of = _rows_of(network) if windows_share(hop_frames) else _early(network)
    reach = ceil(SHARED_SECONDS / hop)
    return WindowedExtractor(spec, clock, front_end, FRAMES, rows_of, block_rows=BLOCK_ROWS, reach=reach)


def _rows_of(network: SpeechEmbedding) -> RowsOf:
    def rows_of(span: Frames, starts: list[int], memory: StreamMemory) -> Rows:
        rows = []
        with torch.inference_mode():
            for floor, run in runs_of_one_floor(span, starts):
                frames = clipped(span, starts, floor, run)
                windows = SharedWindows(network, torch.from_numpy(frames), run[0], memory.setdefault(floor, {}))
                rows.append(windows.rows(run))
                forget_others(memory, floor)
            return np.asarray(torch.cat(rows).numpy())

    return rows_of


def _early(network: SpeechEmbedding) -> RowsOf:
    """For windows that share the first layers alone."""

    def rows_of(span: Frames, starts: list[int], _: StreamMemory) -> Rows:
        rows = []
        with torch.inference_mode():
            for floor, run in runs_of_one_floor(span, starts):
                frames = torch.from_numpy(clipped(span, starts, floor, run))
                rows.append(rows_of_windows(network, frames, [start - run[0] for start in run]))
            return np.asarray(torch.cat(rows).numpy())

    return rows_of
