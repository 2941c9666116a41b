"""`logmel`: log-mel frames of a window, summed up or stacked. No weights, any sample rate, cheap.

Two kinds of rows. `statistics` (joined by +) sums the window's frames up per band: mean, std, max, min, and
slope, the change per second of a straight line through them. `frames=k` keeps the course of time instead: the
window is cut into k equal pieces and the mean of each stands in the row, oldest first, so that a small model sees
onsets and transitions.

`level=relative` takes the loudest band so far from every number, forgetting it slowly, so that rows depend little on
the microphone and the distance to it. For speech by unknown speakers this is worth several percent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ConfigurationError, UsageError
from pipelines.features.audio.mel import Frames, general_front_end
from pipelines.features.audio.row_samples import SampleClock
from pipelines.features.audio.window_statistics import STATISTICS, Statistic, Windows, chosen_statistics, summed
from pipelines.features.audio.windowed import RowsOf, StreamMemory, WindowedExtractor, of_windows
from pipelines.features.extractor import Rows
from pipelines.features.spec import Align, ExtractorSpec, Option

LOWEST_RATE = 8000  # Hz
FRAME_SECONDS = 0.025
FRAME_HOP_SECONDS = 0.010
LEVELS = ("absolute", "relative")
LEVEL_DECAY = 0.2  # per second, in natural logarithms of power: 26 dB in half a minute
LOWEST_LEVEL = -6.0  # silence is not turned up to the loudness of speech; the quietest frames are at log(1e-6) = -13.8


def _slope(windows: Windows) -> NDArray[np.float64]:
    """Least squares, per second."""
    times = FRAME_HOP_SECONDS * (np.arange(windows.shape[1]) - (windows.shape[1] - 1) / 2)
    return np.asarray(np.einsum("t,rtb->rb", times, windows) / max(float(times @ times), 1e-12))


WITH_SLOPE: Mapping[str, Statistic] = {**STATISTICS, "slope": _slope}


def frame_sizes(sample_rate: int) -> tuple[int, int]:
    """Samples of a frame, and from one frame to the next."""
    return round(FRAME_SECONDS * sample_rate), round(FRAME_HOP_SECONDS * sample_rate)


def frame_count(window: float, sample_rate: int) -> int:
    """Frames of a window in seconds."""
    frame_length, frame_hop = frame_sizes(sample_rate)
    return max(1, int((window * sample_rate + 1e-6 - frame_length) // frame_hop) + 1)


def build_logmel(
    hop: float,
    sample_rate: int = 16000,
    n_mels: int = 64,
    window: float = 0.0,
    statistics: str = "mean+std+max",
    frames: int = 0,
    level: str = "absolute",
    lowest: float = 40.0,
    highest: float = 0.0,
    align: Align = "causal",
) -> WindowedExtractor:
    """`window` in seconds (0: one hop, with the first frame in full), `highest` in hertz (0: half the rate)."""
    highest = highest or sample_rate / 2
    frame_length, frame_hop = frame_sizes(sample_rate)
    window = window or max(FRAME_SECONDS, hop + FRAME_SECONDS - FRAME_HOP_SECONDS)
    count = frame_count(window, sample_rate)
    if sample_rate < LOWEST_RATE:
        raise UsageError(f"logmel needs a sample rate of at least {LOWEST_RATE} Hz, not {sample_rate}")
    if n_mels < 1:
        raise UsageError(f"logmel needs at least one mel band, not {n_mels}")
    if not 0 <= lowest < highest <= sample_rate / 2:
        raise ConfigurationError(
            f"logmel cannot have bands from {lowest:g} to {highest:g} Hz: the limit is {sample_rate / 2:g} Hz"
        )
    if window < FRAME_SECONDS:
        raise UsageError(f"logmel needs a window of at least {FRAME_SECONDS} s, not {window}")
    chosen = chosen_statistics("logmel", statistics, WITH_SLOPE)
    if level not in LEVELS:
        raise UsageError(f"logmel has no level '{level}': choose from {', '.join(LEVELS)}")
    if frames < 0:
        raise UsageError(f"logmel cannot cut a window into {frames} pieces: give frames=0 for statistics, or more")
    if frames > count:
        raise ConfigurationError(f"a window of {window:g} s has {count} frames: it cannot be cut into {frames} pieces")
    front_end = general_front_end(sample_rate, n_mels, lowest, highest, frame_length, frame_hop)
    if not front_end.filters.any(0).all():
        raise ConfigurationError(
            f"{n_mels} mel bands from {lowest:g} to {highest:g} Hz are too narrow: choose a smaller n_mels"
        )
    options: dict[str, Option] = {"sample_rate": sample_rate, "n_mels": n_mels, "window": window}
    options |= {"frames": frames} if frames else {"statistics": statistics}
    options |= {"level": level, "lowest": lowest, "highest": highest}
    width = n_mels * (frames or len(chosen))
    spec = ExtractorSpec("logmel", "audio", width, window, options)
    clock = SampleClock(hop, sample_rate, round(window * sample_rate), align)
    rows_of = _stacked(frames) if frames else summed(chosen)
    if level == "absolute":
        return WindowedExtractor(spec, clock, front_end, count, of_windows(count, rows_of))
    # From the loudest that samples in [-1, 1] can be, the level has sunk to its lowest by then.
    memory = (np.log(front_end.loudest) - LOWEST_LEVEL) / LEVEL_DECAY  # seconds
    return WindowedExtractor(spec, clock, front_end, count, _relative(count, rows_of), reach=ceil(memory / hop))


def _relative(count: int, rows_of: Callable[[NDArray[np.float32]], Rows]) -> RowsOf:
    """`rows_of` windows, from each of which the level at its end is taken."""

    def rows_of_span(span: Frames, starts: list[int], memory: StreamMemory) -> Rows:
        first = starts[0]
        loudest = span.max(1).tolist()
        heard = memory.get("heard", first)  # the first frame that the level does not know yet
        level = memory.get("level", LOWEST_LEVEL)
        levels = []
        for start in starts:
            for peak in loudest[max(heard, start) - first : start - first + count]:
                level = max(level - LEVEL_DECAY * FRAME_HOP_SECONDS, peak, LOWEST_LEVEL)
            heard = start + count
            levels.append(level)
        memory.update(heard=heard, level=level)
        below = np.array(levels, np.float32)[:, None, None]
        return of_windows(count, lambda windows: rows_of(windows - below))(span, starts, memory)

    return rows_of_span


def _stacked(pieces: int) -> Callable[[NDArray[np.float32]], Rows]:
    def rows_of(windows: NDArray[np.float32]) -> Rows:
        """(rows, frames, bands) to (rows, pieces × bands)."""
        parts = np.array_split(windows.astype(np.float64), pieces, axis=1)
        return np.concatenate([part.mean(1) for part in parts], 1).astype(np.float32)

    return rows_of
