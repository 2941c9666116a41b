"""The floors of speech windows: a window's numbers end 80 dB below its loudest one.

Most windows hold nothing that soft, and have no floor. Those that do share their work with windows of the same floor.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipelines.features.audio.mel import Frames
from pipelines.features.audio.speech.network import FRAMES
from pipelines.features.audio.windowed import StreamMemory

Loudness = NDArray[np.float32]  # (windows,)

RANGE = 8.0  # 80 dB in powers of ten: how far below its loudest number a window ends


def runs_of_one_floor(span: Frames, starts: list[int]) -> Iterator[tuple[float | None, list[int]]]:
    """Neighbouring windows with their floor; None: nothing in them lies as low."""
    windows = np.array(starts)[:, None] - starts[0] + np.arange(FRAMES)  # (windows, 76): places in the span
    floors = _floors(span.max(1)[windows].max(1), span.min(1)[windows].min(1))
    run: list[int] = []
    run_floor: float | None = None
    for start, floor in zip(starts, floors, strict=True):
        if run and floor != run_floor:
            yield run_floor, run
            run = []
        run_floor = floor
        run.append(start)
    yield run_floor, run


def floors_of(windows: Frames) -> list[float | None]:
    """The floor of each of some windows (windows, 76, 32); None: nothing in it lies as low."""
    numbers = windows.reshape(len(windows), -1)
    return _floors(numbers.max(1), numbers.min(1))


def _floors(loudest: Loudness, softest: Loudness) -> list[float | None]:
    """Of windows, from their loudest and their softest number."""
    floors = loudest.astype(np.float64) - RANGE
    return [floor if low else None for floor, low in zip(floors.tolist(), (softest < floors).tolist(), strict=True)]


def clipped(span: Frames, starts: list[int], floor: float | None, run: list[int]) -> Frames:
    """The frames of a run of windows, none below their floor. `span` begins with the window at starts[0]."""
    frames = span[run[0] - starts[0] : run[-1] - starts[0] + FRAMES]
    return frames if floor is None else np.maximum(frames, np.float32(floor))


def forget_others(memory: StreamMemory, floor: float | None) -> None:
    """The loudest frame of every other floor is over, so no later window has it."""
    for other in [other for other in memory if other not in (None, floor)]:
        del memory[other]
